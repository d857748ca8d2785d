"""Tools of any signature: the generated module compiles, and calls arrive unchanged."""

from __future__ import annotations

import ast
import inspect
from random import Random

from fuzz.target import Target, split_seed
from rpc import SOCKET, Dispatcher, generate_stub
from rpc.stub_runtime import __all__ as RUNTIME

OLDEST = (3, 8)
NAMES = ("a", "b", "print", "self", "json", "\u00fc", "tool", "_x", "len", "_call", "dict", "ToolError", "__a", "match")
ANNOTATIONS = (
    inspect.Parameter.empty, int, "int | None", list[str], "list['", "x := 1", dict[str, object] | None, "lambda: 0",
    len,
    "Literal['\\n']", "a b", "(yield)", None, "'quoted'", "...", "[x for x in y]", "f'{a}'", "\0", 5,
)  # fmt: skip
DEFAULTS = (
    inspect.Parameter.empty,
    None,
    1,
    "text'\"\\\n",
    0.5,
    float("inf"),
    [],
    {"a": [1]},
    (1,),
    {1: 2},
    object(),
    b"x",
    len,
)
KINDS = tuple(inspect._ParameterKind)


def check_stub(data: bytes) -> None:
    chance, data = split_seed(data)
    signature = any_signature(chance)
    if signature is None:
        return
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def tool(*args: object, **kwargs: object) -> str:
        calls.append((args, kwargs))
        return "answer"

    tool.__doc__ = data.decode("utf-8", "replace")
    tool.__signature__ = signature  # type: ignore[attr-defined]
    name = chance.choice(("search", "\u00e4", *RUNTIME, "print", "class", "_x", "json"))
    try:
        source = generate_stub({name: tool}, SOCKET, "return")
    except ValueError:
        return
    ast.parse(source, feature_version=OLDEST)
    module: dict[str, object] = {"__name__": "hermes_tools"}
    exec(compile(source, "hermes_tools.py", "exec"), module)
    module["_OWN"] = ["token", ""]
    module["_exchange"] = Dispatcher({name: tool}, token="token").dispatch
    assert inspect.getdoc(module[name]) == (inspect.getdoc(tool) or None)
    args, kwargs = any_call(signature, chance)
    assert module[name](*args, **kwargs) == "answer"  # type: ignore[operator]
    sent = signature.bind(*calls[0][0], **calls[0][1])
    made = signature.bind(*args, **kwargs)
    for bound in (sent, made):
        bound.apply_defaults()
    assert repr(sent) == repr(made)


def any_signature(chance: Random) -> inspect.Signature | None:
    kinds = sorted(chance.choices(KINDS, k=chance.randrange(7)))
    if max(kinds.count(KINDS[2]), kinds.count(KINDS[4])) > 1:
        return None
    parameters = []
    for name, kind in zip(chance.sample(NAMES, 6), kinds, strict=False):
        default = inspect.Parameter.empty if kind in (KINDS[2], KINDS[4]) else chance.choice(DEFAULTS)
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=chance.choice(ANNOTATIONS)))
    try:
        return inspect.Signature(parameters, return_annotation=chance.choice(ANNOTATIONS))
    except ValueError:  # a default before none
        return None


def any_call(signature: inspect.Signature, chance: Random) -> tuple[list[object], dict[str, object]]:
    args: list[object] = []
    kwargs: dict[str, object] = {}
    by_place = True
    for name, parameter in signature.parameters.items():
        value = chance.choice((None, 1, "x", [1], {"a": None}))
        is_given = parameter.default is parameter.empty or chance.random() < 0.5
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += [1, "x"] if by_place else []
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs["extra"] = value
        elif parameter.kind is parameter.KEYWORD_ONLY or (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and (not by_place or chance.random() < 0.5)
        ):
            by_place = by_place and parameter.kind is parameter.KEYWORD_ONLY
            if is_given:
                kwargs[name] = value
        elif is_given and by_place:
            args.append(value)
        else:
            by_place = False
    return args, kwargs


TARGETS = (Target(check_stub, (b"\n", b'"""', b"\\", b"'", b"\0", b"\r", b"doc", b"\xff", b"{", b"%s")),)
