"""The catalogue of formats: one line each, or one in full."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes

_TIMES = (
    ("ttft_ns", "TTFT"),
    ("queue_ns", "queue"),
    ("prefill_ns", "prefill"),
    ("decode_ns", "decode"),
    ("tool_wait_ns", "tool wait"),
)
_REST = (("replica", "replica"), ("completion_tokens", "tokens"), ("cost", "cost"))


def view(doc: dict[str, Any]) -> View:
    found = doc.get("detected")
    listed = doc["formats"]
    blocks: list[Block] = []
    if found:
        fits = found["format"] or "none of the known formats"
        blocks.append(Text(f"{found['path']}: {fits} ({found['why']})", "detected", "bold"))
        if found["mapping"]:
            blocks.append(Text(found["mapping"], laid_out=True))
    if len(listed) == 1:
        return [*blocks, *_whole(listed[0]), *notes(doc)]
    rows = [[f["format"], f["title"], f["observer"], _observed(f)] for f in listed]
    columns = ("format", "what it is", "timed by", "observes")
    blocks.append(Table("", columns, rows, records=listed, main=True, left=4))
    return [*blocks, *notes(doc)]


def _observed(entry: dict[str, Any]) -> str:
    """The times a format can hold, in words; e2e is always there."""
    seen = set(entry["observes"])
    return ", ".join(word for column, word in (*_TIMES, *_REST) if column in seen) or "e2e only"


def _whole(entry: dict[str, Any]) -> list[Block]:
    pairs = [
        ("format", entry["format"]),
        ("what it is", entry["title"]),
        ("written by", entry["source"]),
        ("specified in", entry["spec"]),
        ("timed by", entry["observer"]),
        ("clock", f"{entry['clock']}, resolution {entry['resolution']}"),
        ("observes", ", ".join(entry["observes"])),
        ("switch it on", entry["hint"] or "-"),
        ("recognised by", entry["detect"]),
    ]
    blocks: list[Block] = [Table("", ("", ""), [list(p) for p in pairs], records=[entry], main=True, left=2)]
    return blocks + [Text(trap, "trap" if i == 0 else " ") for i, trap in enumerate(entry["traps"])]
