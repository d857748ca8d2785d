"""Dropping and emptying databases through their clients."""

from __future__ import annotations

import re
from collections.abc import Iterator

from environments.approvals.command import Command
from environments.approvals.deeds.rule import Rules, always, with_word
from environments.approvals.options import Options
from environments.approvals.reading.names import names

_COMMENT_OR_TEXT = re.compile(r"(--[^\n]*|/\*(?:.*?\*/|.*))|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`", re.DOTALL)
_DROPS = re.compile(
    r"drop\s+(?:database|schema|table|view|materialized\s+view|index|user|role|tablespace|owned|keyspace|collection"
    r"|function|sequence)\b|alter\s+table\s+\S+\s+drop\b"
)
_EMPTIES = re.compile(r"truncate\b")
_CHANGES_ROWS = re.compile(r"(?:with\b.*)?(?:delete\s+from|update\s+\S+\s+set)\b", re.DOTALL)
_NARROWS = re.compile(r"\b(?:where|limit)\b")
_NARROWS_NOTHING = re.compile(r"\bwhere\s+(?:1\s*=\s*1|true|1|0\s*=\s*0)\s*$")
_DOCUMENTS = re.compile(
    r"dropDatabase|\.drop\(|deleteMany\(\s*(?:\{\s*\})?\s*\)|remove\(\s*\{\s*\}\s*\)|dropUser|dropCollection"
)
_FLUSHES = re.compile(r"flushall|flushdb|shutdown|debug\s+segfault", re.IGNORECASE)


def destructive_sql(text: str) -> str | None:
    """Say what is lost by SQL."""
    for statement in _COMMENT_OR_TEXT.sub(lambda found: " " if found[1] else " x ", text).lower().split(";"):
        plain = statement.strip()
        if _DROPS.match(plain):
            return "it drops what a database holds"
        if _EMPTIES.match(plain):
            return "it empties a table"
        if _CHANGES_ROWS.match(plain) and (not _NARROWS.search(plain) or _NARROWS_NOTHING.search(plain)):
            return "it removes or overwrites all rows of a table"
    return None


def _statements(command: Command) -> Iterator[str]:
    """Return what a client may be given to run: any argument, and what it reads."""
    for text in command.texts:
        yield re.sub(r"^(?:-[a-zA-Z]|--[a-z-]+=)", "", text) if text.startswith("-") else text
    if command.given:
        yield command.given


def _sql(command: Command) -> str | None:
    return next((lost for text in _statements(command) if (lost := destructive_sql(text))), None)


def _documents(command: Command) -> str | None:
    found = any(_DOCUMENTS.search(text) for text in _statements(command))
    return "it drops what a database holds" if found else None


def _flushed(command: Command) -> str | None:
    operands = Options.of(command.args, ("-h", "-p", "-a", "-n", "-u", "--user", "--pass"), first_ends=True).operands
    first = operands[0].text if operands else ""
    read = [line.strip() for line in (command.given or "").splitlines()]
    found = any(_FLUSHES.match(text) for text in (first, *read))
    return "it empties or ends a database" if found else None


RULES: Rules = {
    **dict.fromkeys(
        names(
            "psql mysql mariadb sqlite3 sqlite sqlcmd cqlsh duckdb clickhouse clickhouse-client cockroach bq "
            "snowsql sqlplus usql pgcli mycli litecli trino presto hive beeline influx spark-sql isql"
        ),
        _sql,
    ),
    **dict.fromkeys(("mongo", "mongosh"), _documents),
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli"), _flushed),
    **dict.fromkeys(("mysqladmin", "mariadb-admin"), with_word("it drops or ends a database", "drop", "shutdown")),
    "dropdb": always("it drops a database"),
    "dropuser": always("it drops a user of a database"),
}
