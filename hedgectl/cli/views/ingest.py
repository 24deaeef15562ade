"""What was read: one line a file, every reject that is kept, coverage of the fields."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import count, share, window

_COUNTS = ("lines", "accepted", "duplicates", "not_requests", "rejected")


def view(doc: dict[str, Any]) -> View:
    files = doc["files"]
    rows = [
        [
            f["path"],
            f["format"] or "-",
            *(count(f[c]) for c in _COUNTS),
            "already read" if f["already_ingested"] else "",
        ]
        for f in files
    ]
    totals = doc["totals"]
    if len(files) > 1:
        rows.append(["total", "", *(count(totals[c]) for c in _COUNTS), ""])
    blocks: list[Block] = [
        Table(
            "",
            ("file", "format", "lines", "accepted", "duplicates", "not requests", "rejected", ""),
            rows,
            records=[{k: v for k, v in f.items() if k != "rejects"} for f in files],
            main=True,
            left=2,
        ),
        Text(_read(doc)),
    ]
    rejects = [(f["path"], r) for f in files for r in f.get("rejects", [])]
    if rejects:
        cells = [[path, count(r["line"]), r["reason"], (r.get("text") or "")[:60]] for path, r in rejects[:20]]
        caption = f"{len(rejects) - 20} more in the table reject" if len(rejects) > 20 else ""
        blocks.append(Table("rejected", ("file", "line", "reason", "text"), cells, left=4, caption=caption))
    coverage = doc.get("coverage") or {}
    if coverage:
        known = ", ".join(f"{k} {share(v, 0)}" for k, v in coverage.items())
        blocks.append(Text(known, label="observed"))
    return [*blocks, *notes(doc)]


def _read(doc: dict[str, Any]) -> str:
    """What these files brought, and the window of all that is held, which is the same thing at first."""
    brought = f"{count(doc['totals']['requests'])} requests, {count(doc['totals']['attempts'])} attempts"
    if not doc.get("window"):
        return brought
    held = window(doc)
    return held if held.endswith(brought) else f"{brought}; {held}"
