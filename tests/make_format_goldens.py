"""Writes tests/golden/formats/<format>.json: the canonical rows of a format's samples. Read the difference before you commit it.

Run: python tests/make_format_goldens.py [FORMAT ...]
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from format_rows import read_text, rows, samples

from hedgectl.formats.catalogue import load_all

FOLDER = Path(__file__).resolve().parent / "golden" / "formats"
MAX_BYTES = 60_000
"""Larger samples (a demo) have invariants but no golden rows."""


def storable(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON keeps it: decimals as text."""
    return {k: str(v) if isinstance(v, Decimal) else v for k, v in row.items()}


def golden(name: str) -> dict[str, list[dict[str, Any]]]:
    """File name -> rows, decimals as text."""
    return {
        p.name: [storable(r) for r in rows(name, read_text(p))] for p in samples(name) if p.stat().st_size <= MAX_BYTES
    }


def text(found: dict[str, list[dict[str, Any]]]) -> str:
    """One row a line, so that a difference shows the row."""
    parts = [
        f"{json.dumps(file)}: [\n" + ",\n".join(f"  {json.dumps(r, ensure_ascii=False)}" for r in listed) + "\n]"
        for file, listed in found.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or load_all():
        found = golden(name)
        (FOLDER / f"{name}.json").write_text(text(found), encoding="utf-8")
        kept = [row for listed in found.values() for row in listed if row.get("kind", "attempt") == "attempt"]
        filled = {column for row in kept for column in row} - {"line", "record", "kind", "reason", "note"}
        print(f"{name}: {len(kept)} attempts fill {', '.join(sorted(filled))}")
