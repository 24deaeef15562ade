"""Which files a list of paths, globs, directories and ``s3://`` addresses means."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from hedgectl import place as places
from hedgectl.errors import InputError, NoRequests

STDIN = "-"

_OURS = (".duckdb", ".duckdb.wal", ".duckdb.tmp")


def shown(path: str) -> str:
    """A path as text: bytes of a name that are not UTF-8 as \\xNN. Only opening the file needs the bytes themselves."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def expand(paths: Sequence[str]) -> list[str]:
    """Regular files (and ``-``) in a stable order, each once; directories are walked, hidden files left out.

    Raises InputError when a path or a pattern matches nothing, NoRequests when only empty folders are named.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path == STDIN:
            found[STDIN] = None
            continue
        if places.is_remote(path):
            found.update(dict.fromkeys(places.find(path)))
        elif os.path.isdir(path):
            found.update(dict.fromkeys(_walk(path)))
        elif os.path.lexists(path):
            found[path] = None
        else:
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                where = str(Path(path).absolute()) if not glob.has_magic(path) else path
                raise InputError(f"no such file: {path}", where=where, hint="give files, directories, globs or -")
            for match in matches:
                if os.path.isdir(match):
                    found.update(dict.fromkeys(_walk(match)))
                else:
                    found[match] = None
    if not found and paths:
        raise NoRequests("no requests found", where=", ".join(paths), hint="no log is in there; check the path")
    return list(found)


def _walk(folder: str) -> list[str]:
    """Regular files below a folder, sorted; databases of hedgectl itself are not logs."""
    inner: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.startswith(".") or name.endswith(_OURS):
                continue
            try:
                regular = stat.S_ISREG(os.stat(path).st_mode)
            except OSError:
                regular = True  # opening it will say why not
            if regular:
                inner.append(path)
    return inner
