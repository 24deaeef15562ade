"""The flags that are the same everywhere, their types and their help, in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgectl import config
from hedgectl.errors import UsageError


def _parsed(convert: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    def parse(raw: str) -> Any:
        try:
            return convert(raw)
        except ValueError:
            raise typer.BadParameter(f"{raw!r} is not {expected}") from None

    return parse


duration = _parsed(config.seconds, "a duration with its unit, e.g. 250ms, 1.5s, 7d")
share = _parsed(config.ratio, "a share such as 5% or 0.05")

_DATA, _WHICH, _OUT, _RULES = "Input", "Which requests", "Output", "What is asked"

Logs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[LOG]...", help="log files, folders or globs; - reads stdin; none: what --db holds", show_default=False
    ),
]
Db = Annotated[
    Path | None, typer.Option("--db", help="DuckDB file of hedgectl ingest", rich_help_panel=_DATA, show_default=False)
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="settings; default ./hedgectl.toml if it exists", show_default=False)
]
Format = Annotated[
    str | None, typer.Option("--format", help="name of the log's format; default: detected", show_default=False)
]
Map = Annotated[
    Path | None, typer.Option("--map", help="your own format: a TOML that names fields and units", show_default=False)
]
Tz = Annotated[str | None, typer.Option("--tz", help="zone of times without one, e.g. Asia/Tokyo", show_default=False)]
MaxReject = Annotated[
    float | None,
    typer.Option(
        "--max-reject",
        parser=share,
        metavar="SHARE",
        help="rejected share beyond which nothing is taken",
        show_default=False,
    ),
]
Join = Annotated[bool, typer.Option("--join", help="join two observers of the same requests instead of refusing them")]
Since = Annotated[
    str | None, typer.Option("--since", help="first arrival, RFC 3339, e.g. 2026-11-22T00:00:00Z", show_default=False)
]
Until = Annotated[str | None, typer.Option("--until", help="end of arrivals (exclusive), RFC 3339", show_default=False)]
Window = Annotated[
    float | None,
    typer.Option(
        "--window", parser=duration, metavar="DURATION", help="the last part of the log, e.g. 7d", show_default=False
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="the moment that counts as now; default: the newest row", show_default=False),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="SQL", help="condition on request columns, e.g. \"segment = 'pro'\"", show_default=False
    ),
]
Model = Annotated[str | None, typer.Option("--model", help="this model only (exact)", show_default=False)]
Route = Annotated[str | None, typer.Option("--route", help="this route only (exact)", show_default=False)]
MinRequests = Annotated[
    int | None,
    typer.Option("--min-requests", min=1, help="requests below which nothing is claimed", show_default=False),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="memory DuckDB may use, e.g. 1GB", show_default=False),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="seed of all randomness", show_default=False)]
Output = Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json, jsonl, csv or md")]
Out = Annotated[
    Path | None, typer.Option("-O", "--out", help="write to this file instead of stdout", show_default=False)
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="nothing on stderr but errors")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="say more on stderr")]
Color = Annotated[str, typer.Option("--color", metavar="WHEN", help="auto, always or never")]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        parser=duration,
        metavar="DURATION",
        help="wait this long for a database that is held",
        show_default=False,
    ),
]
PolicyFile = Annotated[
    str | None, typer.Option("--policy", metavar="FILE", help="a policy document; - reads stdin", show_default=False)
]


def output_format(fmt: str, allowed: tuple[str, ...] = ("table", "json", "jsonl", "csv", "md")) -> str:
    """``fmt`` if it is allowed here. Raises UsageError with the choices."""
    if fmt not in allowed:
        raise UsageError(f"-o {fmt} is not known here", hint=f"one of: {', '.join(allowed)}")
    return fmt
