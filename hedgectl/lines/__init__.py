"""Bytes to numbered lines and records: decompression, blocks, encodings, envelopes, JSON documents, CSV."""

from __future__ import annotations

from hedgectl.lines.archive import Damage, byte_chunks, kind_of
from hedgectl.lines.blocks import BLOCK_SIZE, MAX_LINE, Block, blocks, clean, decode, newlines
from hedgectl.lines.documents import Found, records
from hedgectl.lines.envelopes import ENVELOPES, Inner, Unwrapper, take_off
from hedgectl.lines.envelopes import find as find_envelope
from hedgectl.lines.files import STDIN, expand, shown
from hedgectl.lines.records import Record, look_again
from hedgectl.lines.tables import Rows, Table

__all__ = [
    "BLOCK_SIZE",
    "ENVELOPES",
    "MAX_LINE",
    "STDIN",
    "Block",
    "Damage",
    "Found",
    "Inner",
    "Record",
    "Rows",
    "Table",
    "Unwrapper",
    "blocks",
    "byte_chunks",
    "clean",
    "decode",
    "expand",
    "find_envelope",
    "kind_of",
    "look_again",
    "newlines",
    "records",
    "shown",
    "take_off",
]
