"""Bytes of a file, decompressed by what the first bytes say, never by the name; a cut archive gives all before the cut."""

from __future__ import annotations

import bz2
import codecs
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from hedgectl.errors import InputError

READ_SIZE = 1 << 20
"""Bytes read from the file at once."""

_CHECKPOINT = 64 << 10
"""Compressed bytes fed between two copies of a gzip decoder's state, so that a damaged stretch loses little."""

_GZIP, _ZSTD, _BZIP2, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"
_ZSTD_SKIPPABLE = tuple(bytes([b]) + b"\x2a\x4d\x18" for b in range(0x50, 0x60))
_REFUSED = {
    b"PK\x03\x04": ("a zip archive", "unpack it first: unzip -p FILE | hedgectl ingest -"),
    b"\x04\x22\x4d\x18": ("an lz4 archive", "unpack it first: lz4cat FILE | hedgectl ingest -"),
    b"ORC": ("an ORC file", "convert it to Parquet first"),
    b"Obj\x01": ("an Avro file", "convert it to Parquet or JSON lines first"),
    b"SQLite format 3\x00": ("an SQLite database", "export the table as CSV or JSON lines first"),
}
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(slots=True)
class Damage:
    """What went wrong while reading; filled while the bytes flow, final when they end."""

    reasons: list[str] = field(default_factory=list)  # stable codes: cut_archive, damaged_archive, trailing_bytes


def kind_of(head: bytes) -> str:
    """``gzip``, ``zstd``, ``bzip2``, ``xz``, ``parquet`` or ``plain``, by the first bytes."""
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD) or head[:4] in _ZSTD_SKIPPABLE:
        return "zstd"
    if head.startswith(_BZIP2) and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    if head.startswith(_XZ):
        return "xz"
    if head.startswith(b"PAR1"):
        return "parquet"
    return "plain"


def byte_chunks(source: BinaryIO, damage: Damage, *, where: str) -> Iterator[bytes]:
    """Decompressed chunks of ``source`` from its start, UTF-8 (a UTF-16 file is re-encoded).

    Raises InputError for containers that are not logs (zip, Avro ...); OSError from the device passes through.
    """
    head = source.read(READ_SIZE)
    for magic, (what, hint) in _REFUSED.items():
        if head.startswith(magic):
            raise InputError(f"{what} cannot be read", where=where, hint=hint)
    kind = kind_of(head)
    if kind in ("plain", "parquet"):
        plain = _plain(source, head)
    else:
        plain = _unpack(source, head, kind, damage)
    first = next(plain, b"")
    if first[:2] in _UTF16:
        yield from _from_utf16(first, plain)
        return
    if first:
        yield first
    yield from plain


def _plain(source: BinaryIO, head: bytes) -> Iterator[bytes]:
    while head:
        yield head
        head = source.read(READ_SIZE)


def _from_utf16(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    decode = codecs.getincrementaldecoder(_UTF16[first[:2]])("replace").decode
    yield decode(first[2:]).encode("utf-8", "replace")
    for chunk in rest:
        yield decode(chunk).encode("utf-8", "replace")
    tail = decode(b"", True)
    if tail:
        yield tail.encode("utf-8", "replace")


def _decoder(kind: str) -> Callable[[], Any]:
    if kind == "gzip":
        return lambda: zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor
    if kind == "xz":
        return lzma.LZMADecompressor
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return decompressor.decompressobj


def _unpack(source: BinaryIO, head: bytes, kind: str, damage: Damage) -> Iterator[bytes]:
    """Members or frames one after another; stops at the first byte that is not one, telling which damage it is."""
    new = _decoder(kind)
    data, decoder, members = head, new(), 0
    fresh = True  # nothing fed to this member yet
    while True:
        if not data:
            data = source.read(READ_SIZE)
            if not data:
                if not fresh:
                    damage.reasons.append("cut_archive")
                return
        if fresh and members and kind_of(data + (source.read(8) if len(data) < 8 else b"")) != kind:
            # tar and some writers pad with zeros: nothing is lost then
            if data.strip(b"\0"):
                damage.reasons.append("trailing_bytes")
            return
        piece, data = data[:_CHECKPOINT], data[_CHECKPOINT:]
        saved = decoder.copy() if kind == "gzip" else None
        try:
            out = decoder.decompress(piece)
        except Exception as error:  # zlib, zstandard, lzma and bz2 share no base class
            if not isinstance(error, (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)) and (
                type(error).__module__.partition(".")[0] != "zstandard"
            ):
                raise
            if saved is not None:
                yield _salvage(saved, piece)
            damage.reasons.append("damaged_archive")
            return
        fresh = False
        if out:
            yield out
        if decoder.eof:
            data = decoder.unused_data + data
            decoder, fresh, members = new(), True, members + 1


def _salvage(decoder: Any, piece: bytes) -> bytes:
    """What a gzip decoder still gives from a piece that fails as a whole."""
    good = bytearray()
    for i in range(len(piece)):
        try:
            good += decoder.decompress(piece[i : i + 1])
        except zlib.error:
            break
    return bytes(good)
