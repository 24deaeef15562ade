"""``hedgectl sql``: one read-only query over the canonical tables."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgectl.cli import blocks, opening, output
from hedgectl.cli.options import Printing, Source, grouped
from hedgectl.errors import UsageError

_HELP = """Run one read-only query over the tables request, component and selected_attempt; rows leave as table, jsonl, csv or md.

Examples:

  hedgectl sql "SELECT replica, count(*) AS n FROM request GROUP BY ALL" gateway.jsonl.gz

  hedgectl sql slowest --db hedgectl.duckdb -o csv

Next: hedgectl sql --list names the queries that ship.
"""

_FORMATS = ("table", "jsonl", "csv", "md")


def register(app: typer.Typer) -> None:
    """Adds ``sql``."""
    app.command("sql", help=_HELP)(sql)


@grouped
def sql(
    printing: Printing,
    source: Source,
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="a SELECT, or a name from --list")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="name the queries that ship")] = False,
) -> None:
    printing.begin(_FORMATS)
    if show_list:
        output.view(_listed(), printing.fmt, printing.out)
        return
    if query is None:
        raise UsageError("no query is given", hint='hedgectl sql "SELECT ..." LOG, or hedgectl sql --list')
    cfg = opening.settings(source)
    with opening.opened(source, cfg) as found:
        from hedgectl import query as queries

        columns, rows = queries.run(found.con, query, tz=cfg.get("tz"))
    cells = [["" if v is None else str(v) for v in row] for row in rows]
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    output.view([blocks.Table("", columns, cells, records=records, main=True)], printing.fmt, printing.out)


def _listed() -> list[blocks.Block]:
    from hedgectl import sql as queries

    rows = [
        [name, queries.header(queries.text(f"report/{name}")).get("question", "")] for name in queries.names("report")
    ]
    return [blocks.Table("", ("query", "answers"), rows, main=True, left=2)]
