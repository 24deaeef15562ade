"""Files that are whole at every moment: written beside, flushed to disk, renamed over; the previous one is kept."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hedgectl.errors import HedgectlError, InputError

PREVIOUS = ".previous"
_PART = ".part"


def write(path: Path, text: str) -> bool:
    """Replaces ``path`` by ``text`` in one step; False if it already holds exactly that. Raises HedgectlError."""
    content = text.encode("utf-8")
    if path.exists() and not path.is_file():
        # a device, a pipe or a folder: a file put in its place would take it from everybody
        raise HedgectlError(f"cannot replace {path}: it is no file", where=str(path), hint="give the name of a file")
    if path.is_symlink():
        path = path.resolve()  # the link stays, what it points to is replaced
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
    except OSError as error:
        raise _failed(path, error) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise _failed(path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return True


def write_keeping_previous(path: Path, text: str) -> bool:
    """As :func:`write`; what stood there before is kept beside it with the suffix ``.previous``."""
    if path.is_file() and path.read_bytes() == text.encode("utf-8"):
        return False
    if path.is_file():
        write(path.with_name(path.name + PREVIOUS), path.read_text(encoding="utf-8"))
    return write(path, text)


def read_json(path: Path) -> Any:
    """The JSON in ``path``, None if there is no such file. Raises InputError for anything that is not JSON."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", where=str(path)) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f"restore it from {path.name}{PREVIOUS}, or remove it to start anew"
        raise InputError(f"{path} is not JSON: {error}", where=str(path), hint=hint) from error


def sweep(path: Path) -> None:
    """Removes what a killed run left beside ``path``: half-written files, and nothing else (its lock lies there too)."""
    path = path.resolve() if path.is_symlink() else path
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_PART}"):
        with contextlib.suppress(OSError):
            left.unlink()


def _failed(path: Path, error: OSError) -> HedgectlError:
    return HedgectlError(
        f"cannot write {path}: {error.strerror}",
        where=str(path.parent),
        hint="free some space or check the permissions; the old file is untouched",
    )
