"""``hedgectl ingest``: reads logs into a database, once, counting everything."""

from __future__ import annotations

from pathlib import Path

import typer

from hedgectl.cli import opening, output
from hedgectl.cli.options import Printing, Source, grouped
from hedgectl.errors import UsageError

_HELP = """Read logs into a database. Running it again reads only what is new; every line is accounted for.

Examples:

  hedgectl ingest /var/log/gateway/*.jsonl.gz --db hedgectl.duckdb

  kubectl logs deploy/litellm | hedgectl ingest - --db hedgectl.duckdb --format litellm_payload

Next: hedgectl recommend --db hedgectl.duckdb --window 7d.
"""


def register(app: typer.Typer) -> None:
    """Adds ``ingest``."""
    app.command("ingest", help=_HELP)(ingest)


@grouped
def ingest(source: Source, printing: Printing) -> None:
    printing.begin()
    cfg = opening.settings(source)
    paths = source.logs or []
    if not paths:
        raise UsageError("no log is given", hint="hedgectl ingest PATH... --db hedgectl.duckdb; - reads stdin")
    db = source.db or Path(cfg.get("db", "hedgectl.duckdb"))
    with output.progress("reading") as progress:
        from hedgectl import analysis, store
        from hedgectl.ingest import ingest as run

        with store.connect(db, memory_limit=cfg.get("memory_limit"), wait_s=source.wait or 0.0) as opened:
            doc = run(
                opened,
                paths,
                format=source.format,
                map_file=source.map_file,
                tz=cfg.get("tz"),
                max_reject=source.max_reject,
                progress=analysis.told(progress),
            )
    printing.show(doc)
