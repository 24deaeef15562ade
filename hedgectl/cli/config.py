"""``hedgectl config``: settings and their origin, validation, the JSON Schemas of the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgectl import config, schemas
from hedgectl.cli import output
from hedgectl.cli.options import Printing, grouped

_HELP = """Settings, where each came from, and the schemas of the documents.

Examples:

  hedgectl config show

  hedgectl config schema policy

  hedgectl config engine --from metrics.txt

Next: put your engine's facts under [engine] in hedgectl.toml, then hedgectl recommend LOG.
"""

_FILE = Annotated[Path | None, typer.Option("--config", help="settings; default: ./hedgectl.toml if there is one")]


def register(app: typer.Typer) -> None:
    """Adds the group ``config``."""
    group = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=_HELP)
    group.command("show")(show)
    group.command("validate")(validate)
    group.command("schema")(schema)
    group.command("engine")(engine)
    app.add_typer(group, name="config", help=_HELP)


@grouped
def show(printing: Printing, config_file: _FILE = None) -> None:
    """Prints every setting, its value and where the value came from.

    Examples:

      hedgectl config show

      HEDGECTL_TZ=Asia/Tokyo hedgectl config show -o csv
    """
    printing.begin()
    loaded = config.load(config_file)
    rows: list[dict[str, Any]] = [
        {"setting": s.name, "value": loaded.get(s.name), "origin": loaded.origin(s.name), "meaning": s.help}
        for s in config.SETTINGS
    ]
    for model, table in loaded.prices.items():
        rows += [
            {"setting": f'prices."{model}".{k}', "value": v, "origin": str(loaded.path), "meaning": "price"}
            for k, v in table.items()
        ]
    printing.show({"schema": "hedgectl/config.v1", "settings": rows})


@grouped
def validate(printing: Printing, config_file: _FILE = None) -> None:
    """Reads the settings strictly and says whether they hold.

    Examples:

      hedgectl config validate

      hedgectl config validate --config staging.toml
    """
    printing.begin()
    loaded = config.load(config_file)
    from hedgectl import analysis, store
    from hedgectl.recommend.configured import options

    analysis.zone(loaded.get("tz"))
    options(loaded)
    store.connect(None, memory_limit=loaded.get("memory_limit")).close()
    given = len(loaded.values) + len(loaded.prices)
    output.message(f"{loaded.path or 'no file'}: {given} settings, all understood")


def schema(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="e.g. policy; none: the list")] = None,
) -> None:
    """Prints the JSON Schema of a document.

    Examples:

      hedgectl config schema

      hedgectl config schema policy > policy.schema.json
    """
    if kind is None:
        output.write_text("".join(f"{k}\n" for k in schemas.kinds()), None)
    else:
        output.write_text(output.json_text(schemas.load(kind)), None)


@grouped
def engine(
    printing: Printing,
    source: Annotated[Path, typer.Option("--from", metavar="FILE", help="the engine's /metrics page, saved to a file")],
) -> None:
    """Prints an [engine] block from an engine's own metrics page: batch cap and cache size, and what is missing.

    Examples:

      curl -s http://engine:8000/metrics > metrics.txt

      hedgectl config engine --from metrics.txt >> hedgectl.toml
    """
    from hedgectl import engine_facts

    printing.begin(("table", "json"))
    facts = engine_facts.read(source)
    if printing.fmt == "json":
        output.write_text(output.json_text(facts.document()), printing.out)
    else:
        output.write_text(facts.toml(), printing.out)
    for key, hint in facts.missing.items():
        output.message(f"{key} is not in the page: {hint}")
