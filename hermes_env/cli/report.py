"""`hermes-env report`: makes an HTML page from a record."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from environments.errors import TerminalError
from environments.model_view import plain

if TYPE_CHECKING:
    from hermes_env.report.record import JoinedRecord

STANDARD = "-"
PRIVATE = 0o600
"""The file mode of a page, the same as of a record."""


def report_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A record, or - for standard input.")],
    page: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE",
            help="The page; FILE with .html by default, - for standard output.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a file that is not a report.")] = False,
) -> None:
    """Make an HTML page of a record from `--record FILE`.

    The page is one file without network requests. The page shows the time, waits and output of each command, script
    and tool call, and can be searched. A report of the same name is replaced; any other file only with --force, and a
    link never. The page, like a record, is readable only by this user.
    """
    from hermes_env.report.page import page_of

    record, name = _read(file)
    pieces = (piece.encode() for piece in page_of(record, name))
    if page is None:
        page = STANDARD if file == STANDARD else str(Path(file).with_suffix(".html"))
    if page == STANDARD:
        sys.stdout.buffer.writelines(pieces)
        return
    _write(Path(page), file, pieces, force)
    counted = f"{len(record.events)} event{'' if len(record.events) == 1 else 's'}"
    typer.echo(plain(f"{page}: {counted}"))


def _read(file: str) -> tuple[JoinedRecord, str]:
    from environments.local_files import open_regular
    from hermes_env.report.record import join, read_lines

    def read(opened: BinaryIO, name: str) -> JoinedRecord:
        try:
            return join(read_lines(opened))
        except TerminalError as error:
            raise TerminalError(f"cannot make a report of {name}: {error}") from None
        except OSError as error:
            raise TerminalError(f"cannot read {name}: {error.strerror or error}") from error

    if file == STANDARD:
        return read(sys.stdin.buffer, "standard input"), "standard input"
    try:
        with open_regular(Path(file)) as opened:
            return read(opened, file), Path(file).name
    except OSError as error:
        raise TerminalError(f"cannot read {file}: {error.strerror or error}") from error


def _write(page: Path, file: str, pieces: Iterable[bytes], force: bool) -> None:
    from environments.local_files import naming, opened_folder, replace_in
    from hermes_env.report.page import is_report

    try:
        if not page.parent.is_dir():
            raise TerminalError(f"cannot write {page}: there is no directory {page.parent}; make it first")
        if page.is_symlink():
            raise TerminalError(f"cannot write {page}: it is a link; give the path of another file")
        if page.exists():
            if file != STANDARD and page.samefile(file):
                raise TerminalError(f"{page} is the record: choose another name by --output")
            if page.is_file() and not force and not is_report(page):
                raise TerminalError(
                    f"{page} exists and is not a report: choose another name by --output, or use --force"
                )
        with naming(page, "write"), opened_folder(page.parent) as folder:
            replace_in(folder, page.name, lambda opened: opened.writelines(pieces), PRIVATE)
    except OSError as error:
        raise TerminalError(f"cannot write {page}: {error.strerror or error}") from error
