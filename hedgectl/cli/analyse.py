"""``hedgectl breakdown`` and ``hedgectl diagnose``: where the time goes, and what the tail is made of."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgectl.cli import opening
from hedgectl.cli.options import Printing, Source, grouped

_BREAKDOWN = """Where the time goes: queue, prefill, decode, tool wait and an honest rest.

Examples:

  hedgectl breakdown gateway.jsonl.gz --by replica

  hedgectl breakdown --db hedgectl.duckdb --window 7d --by route,streamed -o csv

Next: hedgectl diagnose LOG says what the tail is made of.
"""

_DIAGNOSE = """What the tail is made of: one slow replica, shared saturation, long work, tools, or "cannot tell".

Examples:

  hedgectl diagnose gateway.jsonl.gz

  hedgectl diagnose --db hedgectl.duckdb --model chat --window 7d -o json

Next: hedgectl recommend LOG says whether a hedge helps, and what to do instead.
"""


def register(app: typer.Typer) -> None:
    """Adds ``breakdown`` and ``diagnose``."""
    app.command("breakdown", help=_BREAKDOWN)(breakdown)
    app.command("diagnose", help=_DIAGNOSE)(diagnose)


@grouped
def breakdown(
    source: Source,
    printing: Printing,
    by: Annotated[
        str,
        typer.Option("--by", metavar="FIELDS", help="comma-separated, e.g. replica or route,hour", show_default=False),
    ] = "",
) -> None:
    printing.begin()
    cfg = opening.settings(source)
    from hedgectl.breakdown import breakdown as run

    with opening.opened(source, cfg) as found:
        doc = run(found.con, found.prepared, [name.strip() for name in by.split(",") if name.strip()])
    printing.show(doc)


@grouped
def diagnose(source: Source, printing: Printing) -> None:
    printing.begin()
    cfg = opening.settings(source)
    from hedgectl.diagnose import diagnose as run

    with opening.opened(source, cfg) as found:
        doc = run(found.con, found.prepared)
    printing.show(doc)
