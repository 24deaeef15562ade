"""One job at a time: an exclusive lock on a file, released by the operating system however the process ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hedgectl.errors import BusyError, HedgectlError

_RETRY_S = 0.2


@contextlib.contextmanager
def held(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Holds ``path`` exclusively. Raises BusyError naming the holder's process if it is taken after ``wait_s`` seconds."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise HedgectlError(
            f"cannot create the lock: {error.strerror}", where=str(path), hint="give a folder that can be written"
        ) from error
    try:
        until = time.monotonic() + wait_s
        while not _taken(handle):
            if time.monotonic() >= until:
                holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() if hasattr(os, "pread") else ""
                raise BusyError(
                    f"another daily job is running{f' (process {holder})' if holder else ''}",
                    where=str(path),
                    hint="wait for it: --wait 10m",
                )
            time.sleep(_RETRY_S)
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _taken(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _taken(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
