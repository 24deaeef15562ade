"""The notes that close every view: warnings first, each with its text, never dropped."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Text

_ORDER = {"error": 0, "warning": 1, "info": 2}


def notes(doc: dict[str, Any]) -> list[Block]:
    found = sorted(doc.get("notes") or [], key=lambda n: _ORDER.get(n.get("level", "info"), 3))
    return [Text(n["text"], label="warning" if n.get("level") in ("warning", "error") else "note") for n in found]
