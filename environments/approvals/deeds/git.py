"""Losing what git keeps: history, branches of others, and changes that are in no commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from environments.approvals.command import Command
from environments.approvals.deeds.rule import Rules
from environments.approvals.options import Options

_GLOBAL = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env")
_EVERYTHING = frozenset({".", "./", "*", ":/", ":", "./*", "-A"})
_Judge = Callable[[Options, tuple[str, ...]], str | None]


def _git(command: Command) -> str | None:
    words = Options.of(command.args, _GLOBAL, first_ends=True).operands
    judge = _SUBCOMMANDS.get(words[0].text) if words else None
    if judge is None:
        return None
    return judge(Options.of(words[1:], ("-m", "-o", "--push-option", "-b")), tuple(word.text for word in words[1:]))


def _push(options: Options, texts: tuple[str, ...]) -> str | None:
    if options.has("n", "dry-run"):
        return None
    if options.has("f") or "force" in options.names or "mirror" in options.names:
        return "it overwrites the history that others share (git push --force)"
    references = [word.text for word in options.operands[1:]]
    if any(reference.startswith("+") for reference in references):
        return "it overwrites the history that others share (git push +branch)"
    if options.has("d", "delete", "prune") or any(reference.startswith(":") for reference in references):
        return "it removes branches that others share"
    return None


def _reset(options: Options, texts: tuple[str, ...]) -> str | None:
    return "it drops changes that are in no commit (git reset --hard)" if options.has("", "hard") else None


def _clean(options: Options, texts: tuple[str, ...]) -> str | None:
    forced = options.has("f", "force") and not options.has("n", "dry-run")
    return "it removes files that git does not know (git clean)" if forced else None


def _branch(options: Options, texts: tuple[str, ...]) -> str | None:
    forced = options.has("D") or (options.has("d", "delete") and options.has("f", "force"))
    return "it removes a branch that may be in no other (git branch -D)" if forced else None


def _checkout(options: Options, texts: tuple[str, ...]) -> str | None:
    if options.has("f", "force", "discard-changes") or not _EVERYTHING.isdisjoint(texts):
        return "it drops changes that are in no commit"
    return None


def _restore(options: Options, texts: tuple[str, ...]) -> str | None:
    if options.has("S", "staged") and not options.has("W", "worktree"):
        return None
    return None if _EVERYTHING.isdisjoint(texts) else "it drops changes that are in no commit"


def _rewrite(options: Options, texts: tuple[str, ...]) -> str | None:
    harmless = options.has("h", "help", "analyze", "dry-run")
    return None if harmless else "it rewrites the history"


def _reflog(options: Options, texts: tuple[str, ...]) -> str | None:
    expires = texts[:1] in (("expire",), ("delete",)) and not options.has("n", "dry-run")
    return "it removes what lost commits are found by (git reflog)" if expires else None


def _collect(options: Options, texts: tuple[str, ...]) -> str | None:
    pruned = [text for text in texts if text.startswith("--prune")]
    return "it removes commits that are in no branch at once" if pruned and "=2." not in pruned[0] else None


def _stash(options: Options, texts: tuple[str, ...]) -> str | None:
    return "it removes stashed changes" if texts[:1] in (("drop",), ("clear",)) else None


def _update_reference(options: Options, texts: tuple[str, ...]) -> str | None:
    return "it removes a reference that commits are found by" if options.has("d", "stdin") else None


def _worktree(options: Options, texts: tuple[str, ...]) -> str | None:
    forced = texts[:1] == ("remove",) and options.has("f", "force")
    return "it removes a worktree with changes that are in no commit" if forced else None


def _remove(options: Options, texts: tuple[str, ...]) -> str | None:
    if options.has("n", "cached", "dry-run"):
        return None
    return None if _EVERYTHING.isdisjoint(texts) else "it removes all files"


_SUBCOMMANDS: Mapping[str, _Judge] = {
    "push": _push,
    "reset": _reset,
    "clean": _clean,
    "branch": _branch,
    "checkout": _checkout,
    "switch": _checkout,
    "restore": _restore,
    "filter-branch": _rewrite,
    "filter-repo": _rewrite,
    "reflog": _reflog,
    "gc": _collect,
    "prune": lambda options, texts: None if options.has("n", "dry-run") else "it removes commits that are in no branch",
    "stash": _stash,
    "update-ref": _update_reference,
    "worktree": _worktree,
    "rm": _remove,
}


def _github(command: Command) -> str | None:
    texts = [word.text for word in Options.of(command.args, ("-R", "--repo")).operands]
    deletes = len(texts) > 1 and texts[1] in ("delete", "remove", "archive")
    return f"it removes what others share (gh {texts[0]} {texts[1]})" if deletes else None


def _bfg(command: Command) -> str | None:
    return "it rewrites the history" if command.args else None


RULES: Rules = {"git": _git, "gh": _github, "bfg": _bfg}
