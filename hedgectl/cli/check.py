"""``hedgectl check``: data checks, each a query that returns the offending rows."""

from __future__ import annotations

import typer

from hedgectl.cli import opening
from hedgectl.cli.options import Printing, Source, grouped

_HELP = """Check the data: parts that do not add up, first tokens after the end, ids used twice, skewed clocks.

Examples:

  hedgectl check gateway.jsonl.gz

  hedgectl check --db hedgectl.duckdb --window 7d -o json

Next: hedgectl sql slowest LOG shows the rows behind a tail.
"""


def register(app: typer.Typer) -> None:
    """Adds ``check``."""
    app.command("check", help=_HELP)(check)


@grouped
def check(source: Source, printing: Printing) -> None:
    printing.begin()
    cfg = opening.settings(source)
    with opening.opened(source, cfg, printing) as found:
        from hedgectl.checks import check as run

        doc = run(found.con, found.prepared)
    opening.strict(source, [f"{r['rule']}: {r['offenders']}" for r in doc["rules"] if r["offenders"]])
    printing.show(doc)
