"""``hedgectl breakdown`` and ``hedgectl diagnose``: where the time goes, and what the tail is made of."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hedgectl.cli import blocks, opening, output, views
from hedgectl.cli.options import Printing, Source, grouped
from hedgectl.errors import UsageError

_BREAKDOWN = """Where the time goes: queue, prefill, decode, tool wait and an honest rest.

Examples:

  hedgectl breakdown gateway.jsonl.gz --by replica

  hedgectl breakdown --db hedgectl.duckdb --window 7d --by route,streamed -o csv

  hedgectl breakdown gateway.jsonl.gz --plot

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
    plot: Annotated[bool, typer.Option("--plot", help="draw who is still waiting after how long, in text")] = False,
) -> None:
    printing.begin()
    if plot and printing.fmt not in ("table", "md"):
        raise UsageError(f"--plot draws in text, not in -o {printing.fmt}", hint="-o table or -o md")
    cfg = opening.settings(source)
    curves: list[blocks.Block] = []
    with opening.opened(source, cfg, printing) as found:
        from hedgectl.breakdown import breakdown as run

        doc = run(found.con, found.prepared, [name.strip() for name in by.split(",") if name.strip()])
        if plot:
            curves = _curves(found.con)
    if plot:
        output.view([*views.of(doc), *curves], printing.fmt, printing.out)
    else:
        printing.show(doc)


def _curves(con: Any) -> list[blocks.Block]:
    from hedgectl import survival
    from hedgectl.cli.views import plot

    drawn: list[blocks.Block] = []
    for metric, title in (("ttft", "waiting for the first token"), ("e2e", "waiting for the end of the answer")):
        drawn += plot.survival(title, *survival.logged(con, metric))
    return drawn or [blocks.Text("no answered request has a duration, so there is no curve to draw", "plot")]


@grouped
def diagnose(source: Source, printing: Printing) -> None:
    printing.begin()
    cfg = opening.settings(source)
    with opening.opened(source, cfg, printing) as found:
        from hedgectl.diagnose import diagnose as run

        doc = run(found.con, found.prepared)
    printing.show(doc)
