"""Records as an Arrow C stream: DuckDB scans the bytes of a log where they lie, with no Python object for a line."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_void = ctypes.c_void_p


class _Schema(ctypes.Structure):
    """``struct ArrowSchema`` of the Arrow C data interface."""


class _Array(ctypes.Structure):
    """``struct ArrowArray``."""


class _Stream(ctypes.Structure):
    """``struct ArrowArrayStream``."""


_FreeSchema: Any = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_FreeArray: Any = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_FreeStream: Any = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_GetSchema: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GetNext: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_LastError: Any = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", _void),
    ("release", _FreeSchema),
    ("private_data", _void),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(_void)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", _void),
    ("release", _FreeArray),
    ("private_data", _void),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _LastError),
    ("release", _FreeStream),
    ("private_data", _void),
]

_COLUMNS = ((b"line", b"l"), (b"record", b"i"), (b"t", b"U"))  # int64, int32, UTF-8 with 64-bit offsets


@dataclass(slots=True)
class Part:
    """Consecutive records: ``lines`` (int64) and ``records`` (int32) of n, ``offsets`` (int64) of n + 1 into ``data`` (UTF-8).

    A record may end in the newline that stood behind it. ``hidden`` (bool, n) marks what a scan sees as NULL.
    """

    lines: Any
    records: Any
    data: bytes
    offsets: Any
    hidden: Any = None

    def text(self, i: int) -> str:
        """The i-th record without its newline."""
        raw = self.data[int(self.offsets[i]) : int(self.offsets[i + 1])]
        return raw.decode("utf-8", "replace").removesuffix("\n")

    def blank(self) -> Any:
        """Which records hold nothing (bool, n)."""
        sizes = np.diff(self.offsets)
        found = sizes == 0
        for i in np.flatnonzero(sizes == 1).tolist():
            found[i] = self.data[int(self.offsets[i])] == 10
        return found

    def cut(self, low: int, high: int) -> Part:
        """The records low .. high - 1; the bytes are shared."""
        hidden = None if self.hidden is None else self.hidden[low:high]
        return Part(
            self.lines[low:high], self.records[low:high], self.data, self.offsets[low : high + 1].copy(), hidden
        )


def part_of(lines: Sequence[int], records: Sequence[int], texts: Sequence[bytes]) -> Part:
    """A part of records that stand apart."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
    return Part(np.array(lines, np.int64), np.array(records, np.int32), b"".join(texts), offsets)


class Feed:
    """What a connection has registered as ``block``: each scan reads ``parts`` from the first on."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with a stream over the parts."""
        key = next(_keys)
        stream = _Stream(_get_schema, _get_next, _last_error, _free_stream, key)
        _alive[key] = (stream, self._rest())
        return _new_capsule(ctypes.addressof(stream), b"arrow_array_stream", None)

    def _rest(self) -> Iterator[Part]:
        """The parts, by their place: DuckDB opens streams only for their schema and never gives them back, and such a one must not
        keep the bytes of a log."""
        place = 0
        while place < len(self.parts):
            if len(self.parts[place].lines):
                yield self.parts[place]
            place += 1


# What DuckDB still holds: it gives it back by ``release``, at a time of its own. The callbacks live as long as the process.
_alive: dict[int, tuple[Any, Any]] = {}
_keys = itertools.count(1)
_new_capsule: Any = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [_void, ctypes.c_char_p, _void]


def _on_free_schema(schema: Any) -> None:
    schema.contents.release = _FreeSchema(0)


def _on_free_array(array: Any) -> None:
    key = array.contents.private_data
    array.contents.release = _FreeArray(0)
    _alive.pop(key, None)


def _on_free_stream(stream: Any) -> None:
    key = stream.contents.private_data
    stream.contents.release = _FreeStream(0)
    _alive.pop(key, None)


def _on_last_error(_stream: Any) -> None:
    return None


def _on_get_schema(_stream: Any, out: Any) -> int:
    fields = [_Schema(code, name, None, 2, 0, None, None, _free_schema, None) for name, code in _COLUMNS]
    pointers = (ctypes.POINTER(_Schema) * len(fields))(*map(ctypes.pointer, fields))
    key = next(_keys)
    _alive[key] = (fields, pointers)
    ctypes.memset(out, 0, ctypes.sizeof(_Schema))
    schema = out.contents
    schema.format, schema.name, schema.n_children, schema.children = b"+s", b"", len(fields), pointers
    schema.release, schema.private_data = _free_table_schema, key
    return 0


def _on_free_table_schema(schema: Any) -> None:
    key = schema.contents.private_data
    schema.contents.release = _FreeSchema(0)
    _alive.pop(key, None)


def _on_get_next(stream: Any, out: Any) -> int:
    ctypes.memset(out, 0, ctypes.sizeof(_Array))  # without a release: the end
    part = next(_alive[stream.contents.private_data][1], None)
    if part is None:
        return 0
    rows = len(part.lines)
    columns = [np.ascontiguousarray(part.lines), np.ascontiguousarray(part.records)]
    bits = None if part.hidden is None else np.packbits(~part.hidden, bitorder="little")
    text = np.frombuffer(part.data, np.uint8) if part.data else np.zeros(1, np.uint8)
    places: list[tuple[int | None, ...]] = [(None, c.ctypes.data) for c in columns]
    places.append((None if bits is None else bits.ctypes.data, part.offsets.ctypes.data, text.ctypes.data))
    buffers = [(_void * len(place))(*place) for place in places]
    children = [_Array(rows, -1, 0, len(b), 0, b, None, None, _free_child, None) for b in buffers]
    pointers = (ctypes.POINTER(_Array) * len(children))(*map(ctypes.pointer, children))
    none = (_void * 1)(None)
    key = next(_keys)
    _alive[key] = ((columns, bits, text, part, buffers, children, none), pointers)
    array = out.contents
    array.length, array.n_buffers, array.buffers = rows, 1, none
    array.n_children, array.children = len(children), pointers
    array.release, array.private_data = _free_array, key
    return 0


def _on_free_child(array: Any) -> None:
    array.contents.release = _FreeArray(0)


# the functions as C calls them
_free_schema: Any = _FreeSchema(_on_free_schema)
_free_array: Any = _FreeArray(_on_free_array)
_free_stream: Any = _FreeStream(_on_free_stream)
_last_error: Any = _LastError(_on_last_error)
_get_schema: Any = _GetSchema(_on_get_schema)
_free_table_schema: Any = _FreeSchema(_on_free_table_schema)
_get_next: Any = _GetNext(_on_get_next)
_free_child: Any = _FreeArray(_on_free_child)
