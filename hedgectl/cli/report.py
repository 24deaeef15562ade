"""``hedgectl report``: the decision and the pictures behind it in one HTML file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hedgectl.cli import opening, output
from hedgectl.cli.options import Goal, Seed, Source, Target, grouped, one_of
from hedgectl.errors import ExitCode, UsageError

_HELP = """One HTML file to look at and to send: verdict, policy, and the charts behind them with their numbers.

Needs no network and opens from disk. Install what draws it with: pip install 'hedgectl[report]'

Examples:

  hedgectl report gateway.jsonl.gz -O report.html

  hedgectl report --db hedgectl.duckdb --window 7d --model chat -O chat.html

Next: hedgectl emit policy.json --to TARGET writes the policy down (hedgectl recommend LOG -o json > policy.json).
"""


@dataclass(frozen=True, slots=True)
class Writing:
    """Where the page goes and how much is said."""

    out: Annotated[Path | None, typer.Option("-O", "--out", help="write to this file; - or a pipe: stdout")] = None
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="nothing on stderr but errors")] = False
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="say more on stderr")] = False


def register(app: typer.Typer) -> None:
    """Adds ``report``."""
    app.command("report", help=_HELP)(report)


@grouped
def report(
    source: Source,
    writing: Writing,
    goal: Goal = None,
    target: Target = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="FILE", help="show this policy instead of searching; - reads stdin"),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="FIELD", help="one decision a model and route: --by route")
    ] = None,
    seed: Seed = None,
) -> None:
    output.configure(quiet=writing.quiet, verbose=writing.verbose)
    one_of("--by", by, ("route",))
    if writing.out is None and sys.stdout.isatty():
        raise UsageError("a page of HTML is nothing for a terminal", hint="hedgectl report LOG -O report.html")
    cfg = opening.settings(source, recommend__goal=goal, seed=seed)
    given = opening.policy(policy)
    with output.progress("reading"):
        from hedgectl.report import svg

        svg.require()
    with output.progress() as progress, opening.opened(source, cfg) as found:
        from hedgectl.recommend.configured import options as configured
        from hedgectl.report.build import report as run

        options = configured(
            cfg,
            target=target,
            policy=given,
            by_route=by == "route",
            progress=progress.stage,
        )
        html, document = run(found.con, found.prepared, options)
    output.write_text(html, writing.out)
    if writing.out is not None and str(writing.out) != "-" and output.deferred() is None:
        output.message(f"wrote {writing.out} ({len(html.encode()) / 1000:,.0f} kB); open it in a browser")
    decisions = {p["decision"] for p in document["policies"]}
    if "not_enough_data" in decisions and "hedge" not in decisions:
        raise typer.Exit(int(ExitCode.NOT_ENOUGH))
