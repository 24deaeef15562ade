"""A document without a view of its own: its rows if it has some, else its scalar keys."""

from __future__ import annotations

import json
from typing import Any

from hedgectl.cli.blocks import Block, Table, View
from hedgectl.cli.views.notes import notes


def view(doc: dict[str, Any]) -> View:
    rows = next((v for v in doc.values() if isinstance(v, list) and v and isinstance(v[0], dict)), None)
    blocks: list[Block] = []
    scalars = [(k, v) for k, v in doc.items() if not isinstance(v, list | dict) and k != "schema"]
    if scalars:
        blocks.append(Table("", ("key", "value"), [(k, _cell(v)) for k, v in scalars], left=2, main=rows is None))
    if rows is not None:
        names = list(dict.fromkeys(key for row in rows for key in row))
        cells = [[_cell(row.get(name)) for name in names] for row in rows]
        blocks.append(Table("", names, cells, records=rows, main=True, left=len(names)))
    return [*blocks, *notes(doc)]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
