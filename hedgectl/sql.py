"""Finds the method on disk: the SQL under ``queries/`` and the example logs under ``sample_logs/``.

A wheel carries both inside the package; a checkout or an editable install has them beside it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hedgectl.errors import HedgectlError, UsageError

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    for place in (_PACKAGE / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise HedgectlError(
        f"the folder {name}/ of hedgectl is missing",
        where=str(_PACKAGE),
        hint="reinstall hedgectl; the folder ships inside the wheel and lies beside the package in a checkout",
    )


def queries_dir() -> Path:
    """The folder that holds ``schema/``, ``formats/``, ``decompose/``, ``check/`` and ``report/``."""
    return _folder("queries")


def samples_dir() -> Path:
    """The folder with one sample log a format."""
    return _folder("sample_logs")


@cache
def text(name: str) -> str:
    """The SQL text of ``queries/<name>.sql``, e.g. ``text("decompose/components")``.

    Raises UsageError for a name that is not there, with the names beside it.
    """
    path = queries_dir() / f"{name}.sql"
    if not path.is_file():
        beside = names(name.split("/", 1)[0])
        raise UsageError(f"no query named {name}", hint=f"there are: {', '.join(beside) or 'none'}")
    return path.read_text(encoding="utf-8")


def names(folder: str) -> list[str]:
    """Names of the queries in ``queries/<folder>``, sorted, without the suffix; a leading ``_`` hides a file."""
    return sorted(p.stem for p in (queries_dir() / folder).glob("*.sql") if not p.name.startswith("_"))


def header(sql: str) -> dict[str, str]:
    """The ``-- key: value`` lines that open a query, keys in lower case."""
    found: dict[str, str] = {}
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        key, colon, value = line[2:].strip().partition(":")
        if colon and key and " " not in key:
            found[key.lower()] = value.strip()
    return found
