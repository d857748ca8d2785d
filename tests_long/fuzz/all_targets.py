"""All fuzz targets: the ones of this folder, and the functions `check...` of other tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

from docs.documents import RINGS, ROOT

from fuzz import archives, rpc_messages, settings_sources, stubs, target_output
from fuzz.target import Check, Target

TARGETS = [
    target for room in (rpc_messages, target_output, archives, settings_sources, stubs) for target in room.TARGETS
]


def targets_of_tests() -> Iterator[Target]:
    """Yield the functions `check...` of the files `test_fuzz_*.py` of all rings. They take bytes or text."""
    for path in sorted(path for ring in RINGS for path in (ROOT / ring).glob("**/test_fuzz_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, check in vars(module).items():
            if name.startswith("check") and getattr(check, "__module__", "") == path.stem:
                words = (word if isinstance(word, bytes) else word.encode() for word in getattr(module, "WORDS", ()))
                yield Target(_of_bytes(check, path.stem.removeprefix("test_fuzz_")), tuple(words))


def _of_bytes(check: Callable[..., None], subject: str) -> Check:
    """Return a check of bytes. NUL separates several texts; a function named only `check` gets its file's name."""
    kinds = [kind for name, kind in check.__annotations__.items() if name != "return"]

    def check_bytes(data: bytes) -> None:
        if kinds[0] in (str, "str"):
            texts = data.decode("utf-8", "replace").split("\0", len(kinds) - 1)
            check(*texts, *[""] * (len(kinds) - len(texts)))
        else:
            check(data)

    check_bytes.__name__ = subject if check.__name__ == "check" else check.__name__
    return check_bytes
