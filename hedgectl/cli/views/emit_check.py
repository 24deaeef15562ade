"""What a runtime would accept in silence and then not do."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Rows, Table, Text, View


def view(doc: dict[str, Any]) -> View:
    rows = [(lint["level"], lint["where"], lint["text"]) for lint in doc["lints"]]
    if not rows:
        return [Text(f"nothing found: no part of this file is one that {doc['target']} is known to ignore"), Rows(())]
    return [Table("", ("level", "where", "what"), rows, doc["lints"], main=True, left=3)]
