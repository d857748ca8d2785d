"""All that is tried: what is here, and the checks of other tests that are named for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from docs.documents import RINGS, ROOT

from fuzz import archives, rpc_messages, settings_sources, stubs, target_output
from fuzz.target import Check, Target

TARGETS = [
    target for room in (rpc_messages, target_output, archives, settings_sources, stubs) for target in room.TARGETS
]


def elsewhere() -> Iterator[Target]:
    """Return the functions `check...` of the files `test_fuzz_*.py` of all rings, which take bytes or text."""
    for path in sorted(path for ring in RINGS for path in (ROOT / ring).glob("**/test_fuzz_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, check in vars(module).items():
            if name.startswith("check") and getattr(check, "__module__", "") == path.stem:
                yield Target(_of_bytes(check), getattr(module, "WORDS", ()))


def _of_bytes(check: Check) -> Check:
    parameter = next(iter(check.__annotations__.values()), "bytes")
    if parameter not in (str, "str"):
        return check

    def check_text(data: bytes) -> None:
        check(data.decode("utf-8", "replace"))  # type: ignore[arg-type]

    check_text.__name__ = check.__name__
    return check_text
