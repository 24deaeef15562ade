"""``hedgectl ingest``: reads logs into a database or a folder of Parquet, once, counting everything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgectl.cli import opening, output
from hedgectl.cli.options import On, Printing, Source, grouped
from hedgectl.errors import NoRequests, UsageError
from hedgectl.notes import doubts

_HELP = """Read logs into a database. Running it again reads only what is new; every line is accounted for.

Examples:

  hedgectl ingest /var/log/gateway/*.jsonl.gz --db hedgectl.duckdb

  hedgectl ingest gateway.jsonl.gz engine-spans.jsonl.gz --join --db hedgectl.duckdb

  kubectl logs deploy/litellm | hedgectl ingest - --db hedgectl.duckdb --format litellm_payload

  hedgectl ingest s3://logs/gateway/2026-11-29/ --out s3://logs/hedgectl

Next: hedgectl recommend --db hedgectl.duckdb --window 7d, or with --from FOLDER after --out.
"""


def register(app: typer.Typer) -> None:
    """Adds ``ingest``."""
    app.command("ingest", help=_HELP)(ingest)


@dataclass(frozen=True, slots=True)
class Told(Printing):
    """As everywhere, but ``--out`` is where the rows go, so the document's file is ``-O`` only."""

    out: Annotated[Path | None, typer.Option("-O", help="write the document to this file instead of stdout")] = None


@grouped
def ingest(
    source: Source,
    printing: Told,
    into: Annotated[
        str | None,
        typer.Option("--out", metavar="PATH", help="write Parquet into this folder or s3:// instead of a database"),
    ] = None,
    on: On = None,
) -> None:
    printing.begin()
    cfg = opening.settings(source)
    paths = source.logs or []
    if not paths:
        raise UsageError("no log is given", hint="hedgectl ingest PATH... --db hedgectl.duckdb; - reads stdin")
    if source.folder is not None:
        raise UsageError("--from is read by analyses", hint="hedgectl ingest LOG... --out FOLDER writes it")
    if into is not None and source.db is not None:
        raise UsageError("--db and --out are both given", hint="rows go into a database or into a folder")
    if on is not None and into is None:
        raise UsageError("--on needs --out", hint="many tasks cannot write one database; they can write a folder")
    how: dict[str, Any] = {
        "format": source.format,
        "map_file": source.map_file,
        "tz": cfg.get("tz"),
        "unit": source.unit,
        "max_reject": source.max_reject,
        "join": bool(cfg.get("join")),
    }
    with output.progress("reading") as progress:
        from hedgectl import analysis, fleet, store, tasks
        from hedgectl.ingest import ingest as run

        try:
            if into is not None:
                with tasks.on(on) as workers:
                    doc = fleet.ingest(
                        into,
                        paths,
                        workers,
                        **how,
                        memory_limit=cfg.get("memory_limit"),
                        progress=progress,
                    )
            else:
                db = source.db or Path(cfg.get("db", "hedgectl.duckdb"))
                with store.connect(db, memory_limit=cfg.get("memory_limit"), wait_s=source.wait or 0.0) as opened:
                    doc = run(
                        opened,
                        paths,
                        **how,
                        progress=analysis.told(progress),
                    )
        except NoRequests as nothing:
            if printing.fmt != "json" or nothing.document is None:
                raise
            doc = nothing.document
            output.fail_after(nothing)
    opening.strict(source, doubts(doc["notes"]))
    printing.show(doc)
