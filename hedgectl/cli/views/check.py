"""Data checks: one line a rule, its offenders, an example of each."""

from __future__ import annotations

import json
from typing import Any

from hedgectl.cli.blocks import Table, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import count


def view(doc: dict[str, Any]) -> View:
    rules = doc.get("rules") or doc.get("checks") or []
    rows = [
        [
            r["rule"],
            "pass" if not r["offenders"] else "FAIL",
            count(r["offenders"]),
            json.dumps(r["examples"][0], ensure_ascii=False, default=str) if r.get("examples") else "",
        ]
        for r in rules
    ]
    return [
        Table("", ("rule", "result", "offenders", "first example"), rows, records=rules, main=True, left=2),
        *notes(doc),
    ]
