"""The flags that are the same everywhere: their names, types and help, in one place.

A command takes whole groups, ``def breakdown(source: Source, printing: Printing)``; ``@grouped`` spreads each group
into its flags, so that a flag is written once and cannot differ between commands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo

from hedgectl import config
from hedgectl.cli import output
from hedgectl.errors import UsageError


def _parsed(convert: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    def parse(raw: str) -> Any:
        try:
            return convert(raw)
        except ValueError:
            raise typer.BadParameter(f"{raw!r} is not {expected}") from None

    return parse


def _unit(raw: str) -> str:
    if raw not in ("s", "ms", "us", "ns", "min"):
        raise ValueError(raw)
    return raw


R = TypeVar("R")

duration = _parsed(config.seconds, "a duration with its unit, e.g. 250ms, 1.5s, 7d")
unit = _parsed(_unit, "a unit: s, ms, us, ns or min")
share = _parsed(config.ratio, "a share such as 5% or 0.05")
part = _parsed(config.part, config.PART)
budget_share = _parsed(config.budget, config.BUDGET)
budget_or_none = _parsed(config.budget, f"{config.BUDGET}; for no copies at all: --no-hedge")


On = Annotated[
    str | None,
    typer.Option("--on", metavar="CLUSTER", help="ray: on this machine's cores; ray://HOST:PORT: on that cluster"),
]
Goal = Annotated[
    str | None,
    typer.Option("--goal", metavar="GOAL", help="e.g. 'e2e_p99 < 7s'; default: e2e_p99 as low as it gets"),
]
Target = Annotated[
    str | None,
    typer.Option("--for", metavar="TARGET", help="only what this target can do: envoy, grpc, polly, client"),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", parser=share, metavar="SHARE", help="cost growth that is acceptable")
]
Burst = Annotated[int | None, typer.Option("--burst", min=1, help="copies that may be sent at once; default 100")]
Routing = Annotated[str | None, typer.Option("--routing", metavar="HOW", help="as_logged, random or least_outstanding")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="seed of all randomness")]


def one_of(flag: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """Raises UsageError for a value that the flag does not take; None is no value."""
    if value is not None and value not in allowed:
        raise UsageError(f"{flag} {value} is not known", hint=f"one of: {', '.join(allowed)}")


def engine_known(cancel: str | None, copy_length: str | None, routing: str | None) -> None:
    """Raises UsageError for a value that --cancel, --copy-length or --routing does not take."""
    one_of("--cancel", cancel, ("frees_engine", "engine_runs_on", "unknown"))
    one_of("--copy-length", copy_length, ("same", "independent", "both"))
    one_of("--routing", routing, ("as_logged", "random", "least_outstanding"))


@dataclass(frozen=True, slots=True)
class Source:
    """Which logs, how to read them, and which of their requests."""

    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOG]...", help="log files, folders or globs; - reads stdin; none: what --db holds"),
    ] = None
    db: Annotated[Path | None, typer.Option("--db", help="DuckDB file that hedgectl ingest filled")] = None
    folder: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PATH", help="folder or s3:// that hedgectl ingest --out filled, in place of --db"
        ),
    ] = None
    config_file: Annotated[
        Path | None, typer.Option("--config", help="settings; default: ./hedgectl.toml if there is one")
    ] = None
    format: Annotated[str | None, typer.Option("--format", help="name of the log's format; default: detected")] = None
    map_file: Annotated[
        Path | None, typer.Option("--map", help="your own format: a TOML that names fields and units")
    ] = None
    tz: Annotated[str | None, typer.Option("--tz", help="zone of times without one, e.g. Asia/Tokyo")] = None
    unit: Annotated[
        str | None,
        typer.Option("--unit", parser=unit, metavar="UNIT", help="of durations that name none: s, ms, us, ns or min"),
    ] = None
    max_reject: Annotated[
        float | None,
        typer.Option("--max-reject", parser=share, metavar="SHARE", help="rejected share that is too much"),
    ] = None
    strict: Annotated[
        bool,
        typer.Option("--strict", help="exit 3 and write no --out if a row was rejected or the data give a warning"),
    ] = False
    join: Annotated[
        bool,
        typer.Option("--join", help="put logs of several observers together: one request seen twice counts once"),
    ] = False
    since: Annotated[str | None, typer.Option("--since", help="first arrival, e.g. 2026-11-22T00:00:00Z")] = None
    until: Annotated[str | None, typer.Option("--until", help="end of arrivals, exclusive")] = None
    window: Annotated[
        float | None, typer.Option("--window", parser=duration, metavar="DURATION", help="the last part only, e.g. 7d")
    ] = None
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="the moment that counts as now; default: newest row (daily: now)")
    ] = None
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="condition on requests, e.g. \"segment = 'pro'\"")
    ] = None
    model: Annotated[str | None, typer.Option("--model", help="this model only, exact")] = None
    route: Annotated[str | None, typer.Option("--route", help="this route only, exact")] = None
    min_requests: Annotated[
        int | None, typer.Option("--min-requests", min=1, help="requests below which nothing is claimed")
    ] = None
    memory_limit: Annotated[
        str | None, typer.Option("--memory-limit", metavar="SIZE", help="memory DuckDB may use, e.g. 1GB")
    ] = None
    wait: Annotated[
        float | None,
        typer.Option("--wait", parser=duration, metavar="DURATION", help="wait for a database that is held"),
    ] = None


@dataclass(frozen=True, slots=True)
class Printing:
    """How the answer is printed. ``show`` prints a document accordingly."""

    fmt: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json, jsonl, csv or md")] = (
        "table"
    )
    out: Annotated[Path | None, typer.Option("-O", "--out", help="write to this file instead of stdout")] = None
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="nothing on stderr but errors")] = False
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="say more on stderr")] = False
    color: Annotated[str, typer.Option("--color", metavar="WHEN", help="auto, always or never")] = "auto"

    def begin(self, formats: tuple[str, ...] = output.FORMATS) -> None:
        """Applies -q, -v and --color, and refuses an unknown -o before any work is done."""
        output.configure(quiet=self.quiet, verbose=self.verbose, color=self.color)
        if self.fmt not in formats:
            raise UsageError(f"-o {self.fmt} is not known here", hint=f"one of: {', '.join(formats)}")

    def show(self, doc: dict[str, Any]) -> None:
        output.document(doc, self.fmt, self.out)
        if self.fmt in ("csv", "jsonl") or (self.fmt == "json" and self.verbose):
            output.notes(doc)


def grouped(command: Callable[..., R]) -> Callable[..., R]:
    """Spreads parameters whose type is a dataclass of this module into one flag a field."""
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    groups: dict[str, type[Any]] = {}
    positional: list[inspect.Parameter] = []
    spread: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            field_hints = get_type_hints(kind, include_extras=True)
            for item in fields(kind):
                default = inspect.Parameter.empty if item.default is MISSING else item.default
                spread.append(
                    inspect.Parameter(
                        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field_hints[item.name]
                    )
                )
        else:
            positional.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @functools.wraps(command)
    def run(**given: Any) -> R:
        for name, kind in groups.items():
            given[name] = kind(**{item.name: given.pop(item.name) for item in fields(kind)})
        return command(**given)

    # the command's own argument first, LOG... takes the rest, then the command's own flags, then the shared ones
    logs = [p for p in spread if p.name == "logs"]
    own = [p for p in positional if any(isinstance(m, ArgumentInfo) for m in p.annotation.__metadata__)]
    ordered = [*own, *logs, *(p for p in positional if p not in own), *(p for p in spread if p.name != "logs")]
    run.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    return run
