"""The one importer of numba: compiles the kernel's functions and keeps the compiled code in a cache folder.

Where numba is missing (or `HEDGECTL_NO_NUMBA` is set) `jit` returns the function as it is: the same source runs, slower.
The cache is found at import: `NUMBA_CACHE_DIR`, the user's cache folder, the state folder, a private temporary folder;
the first one that can be written wins, else every start compiles anew. `notes()` says what was found.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

# numba's own cache looks only at the file of the outermost function, so a change in another file would be missed:
# the folder's name is a hash of all files that hold compiled code.
_COMPILED = (
    "jit.py",
    "layout.py",
    "tables.py",
    "heaps.py",
    "windows.py",
    "answers.py",
    "engine.py",
    "signals.py",
    "routing.py",
    "hedging.py",
    "kernel.py",
)


def _load() -> ModuleType | None:
    if os.environ.get("HEDGECTL_NO_NUMBA"):
        return None
    try:
        import numba
    except ImportError:
        return None
    return numba


def _source_hash() -> str:
    digest = hashlib.sha256()
    for name in _COMPILED:
        digest.update((Path(__file__).with_name(name)).read_bytes())
    return digest.hexdigest()[:16]


def _candidates() -> Iterator[Path]:
    stated = os.environ.get("NUMBA_CACHE_DIR")
    if stated:
        yield Path(stated)
    home = Path(os.path.expanduser("~"))
    yield Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "hedgectl"
    yield Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "hedgectl"
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    yield Path(tempfile.gettempdir()) / f"hedgectl-{owner}"


def _usable(base: Path) -> Path | None:
    """`base/kernel-HASH` if it is ours and can be written, else None. Compiled code is loaded from it: it must be ours."""
    folder = base / f"kernel-{_source_hash()}"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and base.stat().st_uid != os.getuid():
            return None
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def _find_cache() -> Path | None:
    for base in _candidates():
        found = _usable(base)
        if found is not None:
            return found
    return None


_PART: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "_nrt": False,
    "error_model": "numpy",
}
_numba = _load()
CACHE: Path | None = _find_cache() if _numba is not None else None
COMPILED: bool = _numba is not None


@contextmanager
def _cache_here(numba: ModuleType) -> Iterator[None]:
    """Point numba at our folder while it decorates, and leave its settings as they were for everybody else."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(CACHE)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def jit(function: F) -> F:
    """For the parts of the kernel: compiled into their caller, without an entry point from Python of their own.

    Those entry points were two thirds of the compile time; parts are not cached either, since the code of the `entry`
    that uses them holds them.
    """
    if _numba is None:
        return function
    return _numba.njit(**_PART)(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """For parts that nearly every event goes through: the machine code is copied to where they are called.

    By LLVM: copying the source (`inline="always"`) gives the same code and costs a quarter of the compile time.
    """
    if _numba is None:
        return function
    return _numba.njit(forceinline=True, **_PART)(function)  # type: ignore[no-any-return]


def entry(function: F) -> F:
    """For what Python calls: compiled on the first call, cached between starts."""
    if _numba is None:
        return function
    options: dict[str, Any] = {"no_cfunc_wrapper": True, "error_model": "numpy", "nogil": True}
    if CACHE is None:
        return _numba.njit(**options)(function)  # type: ignore[no-any-return]
    with _cache_here(_numba):
        return _numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]


def rows(run: np.dtype[Any], name: str, row: np.dtype[Any]) -> Any:
    """A function (run record, number) -> that row of the table whose address stands in the record as `name`_at.

    The row is a reference: what is assigned to its fields is written to the table.
    """
    field = f"{name}_at"
    if _numba is None:
        return lambda g, i: getattr(g, field)[i]
    kind = _numba.from_dtype(row)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = _field(builder, args[0], run, field)
        at = builder.add(start, builder.mul(args[1], start.type(row.itemsize)))
        return builder.inttoptr(at, context.get_value_type(kind))

    return _reader(kind, codegen)


def cells(run: np.dtype[Any], name: str, cell: str, *, wide: bool = False) -> Any:
    """A function (run record, number) -> the number's value in a column of type `cell`, "f8" or "i4".

    Its address is `name`_at; the values of request i are `name`_row bytes apart, and where `wide`, the number is that
    of an attempt, (i << shift) + k, and those of attempt k are `name`_column bytes apart. 0 bytes: one value for all.
    """
    if _numba is None:
        return lambda g, i: getattr(g, f"{name}_at")[i]
    kind = _numba.from_dtype(np.dtype(cell))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        g, i = args
        at = _field(builder, g, run, f"{name}_at")
        if wide:
            shift = _field(builder, g, run, "shift")
            k = builder.and_(i, builder.not_(builder.shl(i.type(-1), shift)))
            i = builder.lshr(i, shift)
            at = builder.add(at, builder.mul(k, _field(builder, g, run, f"{name}_column")))
        at = builder.add(at, builder.mul(i, _field(builder, g, run, f"{name}_row")))
        return _constant(builder, builder.inttoptr(at, context.get_data_type(kind).as_pointer()))

    return _reader(kind, codegen)


def _field(builder: Any, record: Any, dtype: np.dtype[Any], name: str) -> Any:
    """The value of an int64 field of a record."""
    from llvmlite import ir

    assert dtype.fields is not None
    i8, i64 = ir.IntType(8), ir.IntType(64)
    start = builder.bitcast(record, i8.as_pointer())
    return _constant(builder, builder.bitcast(builder.gep(start, [i64(dtype.fields[name][1])]), i64.as_pointer()))


def _constant(builder: Any, pointer: Any) -> Any:
    """What is read here never changes during a run: the compiler may read it once for all uses, whatever is written between."""
    value = builder.load(pointer)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _reader(kind: Any, codegen: Any) -> Any:
    from numba.core import types
    from numba.extending import intrinsic

    def reader(typingctx: Any, g: Any, i: Any) -> Any:
        return kind(g, types.int64), codegen

    return intrinsic(reader)


def warm(function: Any) -> bool:
    """True if an `entry` will be loaded as an earlier start compiled it (or nothing is compiled at all).

    Each installation has a folder of its own, and code that is older than its source is compiled anew.
    """
    if not COMPILED:
        return True
    if CACHE is None:
        return False
    written = Path(function.py_func.__code__.co_filename).stat().st_mtime
    kept = Path(function.stats.cache_path).glob(f"*.{function.py_func.__name__}-*.nbc")
    return any(code.stat().st_mtime >= written for code in kept)


def notes() -> list[dict[str, Any]]:
    """Notes for a document: the kernel runs uncompiled, or is compiled anew at every start."""
    if not COMPILED:
        text = "numba is not installed: the replay runs uncompiled, about 50 times slower"
        return [{"code": "kernel_uncompiled", "level": "warning", "share": None, "text": text}]
    if CACHE is None:
        text = "no folder for compiled code can be written: every start compiles the kernel anew"
        return [{"code": "kernel_uncached", "level": "info", "share": None, "text": text}]
    return []
