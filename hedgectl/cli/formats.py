"""``hedgectl formats``: what is read, what each format can observe, and a mapping for a log of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgectl.cli import output
from hedgectl.cli.options import Printing, grouped
from hedgectl.errors import UsageError

_HELP = """The logs that are read, what each observes, how to switch it on, and its traps.

Examples:

  hedgectl formats

  hedgectl formats --detect events.jsonl.gz > app.toml

Next: hedgectl recommend LOG, with --map app.toml for a log of your own.
"""


def register(app: typer.Typer) -> None:
    """Adds ``formats``."""
    app.command("formats", help=_HELP)(formats)


@grouped
def formats(
    printing: Printing,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="one format in full")] = None,
    detect: Annotated[
        str | None,
        typer.Option("--detect", metavar="FILE", help="which format fits, or a mapping to start from; - is stdin"),
    ] = None,
) -> None:
    printing.begin()
    if name is not None and detect is not None:
        raise UsageError("a format's name and --detect are both given", hint="give one")
    if detect is None:
        from hedgectl.formats.document import formats_document

        printing.show(formats_document(name))
        return
    from hedgectl.ingest.detection import detection

    doc = detection(detect)
    found = doc["detected"]
    if printing.fmt == "table" and found["mapping"] is not None:
        # a mapping is data: it can be sent straight into a file
        output.message(f"{found['why']}: here is a mapping to start from; check its units")
        output.write_text(found["mapping"], printing.out)
        return
    printing.show(doc)
