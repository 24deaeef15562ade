"""Bytes to numbered lines and records: decompression, blocks, encodings, envelopes, JSON documents, CSV."""

from __future__ import annotations

from hedgectl.lines.archive import Damage, byte_chunks, kind_of
from hedgectl.lines.blocks import BLOCK_SIZE, MAX_LINE, Block, blocks, decode
from hedgectl.lines.files import STDIN, expand
from hedgectl.lines.records import Record, has_nan, look_again

__all__ = [
    "BLOCK_SIZE",
    "MAX_LINE",
    "STDIN",
    "Block",
    "Damage",
    "Record",
    "blocks",
    "byte_chunks",
    "decode",
    "expand",
    "has_nan",
    "kind_of",
    "look_again",
]
