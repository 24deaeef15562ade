"""``hedgectl bench``: times hedgectl against bare tools that do the same work, as ratios in one run."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from hedgectl.cli import blocks, output
from hedgectl.cli.options import Printing, grouped
from hedgectl.errors import UsageError

_HELP = """Time hedgectl on this machine against a bare tool that does the same work. Ratios, taken in one run.

Examples:

  hedgectl bench ingest

  hedgectl bench simulate --set requests=200000 -o json

Next: hedgectl bench lists the cases.
"""


def register(app: typer.Typer) -> None:
    """Adds ``bench``."""
    app.command("bench", help=_HELP)(bench)


@grouped
def bench(
    printing: Printing,
    case: Annotated[str | None, typer.Argument(metavar="[CASE]", help="none: the list")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="an option of the case, e.g. rows=100000")
    ] = None,
) -> None:
    printing.begin()
    from hedgectl import bench as cases

    if case is None:
        rows = [[name, cases.about(name)] for name in cases.names()]
        output.view([blocks.Table("", ("case", "what is timed"), rows, main=True, left=2)], printing.fmt, printing.out)
        return
    options = dict(_option(each) for each in settings or [])
    with output.progress() as progress:
        progress(f"timing {case}")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        doc: dict[str, Any] = cases.run(case, as_of=stamp, **options)
    printing.show(doc)


def _option(text: str) -> tuple[str, int | float | str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UsageError(f"--set {text} is not NAME=VALUE", hint="for example --set rows=100000")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value
