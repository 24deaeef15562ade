"""``hedgectl daily``, ``stats`` and ``verify``: the cron job, the daily figures, projected against observed."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgectl.cli import opening, output
from hedgectl.cli.options import Goal, MaxCost, On, Printing, Seed, Source, Target, grouped
from hedgectl.errors import ExitCode, UsageError

_DAILY = """Read what is new, recompute the policy over the trailing window, and replace the old one only if every gate agrees.

Examples:

  hedgectl daily /var/log/gateway/*.gz --db hedgectl.duckdb --policy-file policy.json --emit client=hedge.json

  hedgectl daily today.jsonl.gz --state-dir state --policy-file policy.json --dry-run

Says nothing when there is nothing new. Exit 3: the old policy stays, with the reasons. Exit 5: another job is running.

Next: hedgectl diff policy.json.previous policy.json shows what changed.
"""

_STATS = """Figures a day: p50, p95, p99, copies, cancels per request and per copy, cost growth, time to first content.

Examples:

  hedgectl stats gateway.jsonl.gz

  hedgectl stats --db hedgectl.duckdb -o prometheus -O /var/lib/node_exporter/hedgectl.prom

Next: hedgectl verify LOG --policy policy.json compares them with what was projected.
"""

_VERIFY = """Compare blocks of time with hedging on and off (a switchback) with what the policy projected.

Examples:

  hedgectl verify gateway.jsonl.gz --policy policy.json

  hedgectl verify --db hedgectl.duckdb --policy policy.json --since 2026-11-22 -o json

The policy's experiment says which blocks are on. At least 20 blocks a side at equal load, else exit 3.

Next: hedgectl recommend LOG, if the observed is outside the projected.
"""


def register(app: typer.Typer) -> None:
    """Adds ``daily``, ``stats`` and ``verify``."""
    app.command("daily", help=_DAILY)(daily)
    app.command("stats", help=_STATS)(stats)
    app.command("verify", help=_VERIFY)(verify)


@grouped
def daily(
    source: Source,
    printing: Printing,
    policy_file: Annotated[
        Path | None, typer.Option("--policy-file", metavar="FILE", help="the policy that is kept up to date")
    ] = None,
    emit: Annotated[
        list[str] | None, typer.Option("--emit", metavar="TARGET=FILE", help="write this target's configuration too")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="a name in the emitted files, see emit --list"),
    ] = None,
    target: Target = None,
    goal: Goal = None,
    max_cost: MaxCost = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="a few kB of state instead of a database")
    ] = None,
    digests: Annotated[
        Path | None,
        typer.Option("--digests", metavar="DIR", help="exchange figures with other hosts through this folder"),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="NAME", help="this host's name in --digests")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would happen and change nothing")] = False,
    seed: Seed = None,
    on: On = None,
) -> None:
    printing.begin()
    cfg = opening.settings(
        source,
        recommend__goal=goal,
        recommend__max_cost=max_cost,
        daily__policy=None if policy_file is None else str(policy_file),
        daily__state_dir=None if state_dir is None else str(state_dir),
        daily__window=source.window,
        daily__emit=emit,
        seed=seed,
    )
    policy = cfg.get("daily.policy")
    if policy is None:
        raise UsageError(
            "no policy file is named", hint="--policy-file policy.json, or policy under [daily] in hedgectl.toml"
        )
    with output.progress("reading"):
        from hedgectl import analysis, tasks
        from hedgectl.daily import Job
        from hedgectl.daily import daily as run
        from hedgectl.recommend.configured import options as configured

    as_of = time.time_ns() if source.as_of is None else analysis.moment_ns(source.as_of, cfg.get("tz"), flag="--as-of")
    state = cfg.get("daily.state_dir")
    files = opening.logs(source, cfg, with_db=True)
    if files.folder is not None and files.db is not None:
        raise UsageError("--from and --db are both given", hint="rows are kept in a folder or in a database")
    if on is not None and files.folder is None:
        raise UsageError(f"--on {on} needs --from", hint="the folder that every node sees; new logs are read into it")
    if files.db is None and files.folder is None and not files.paths:
        raise UsageError("no log is given", hint="hedgectl daily LOG... --db hedgectl.duckdb --policy-file policy.json")
    if digests is not None and files.db is None:
        raise UsageError("--digests needs --db", hint="the history that is exported lives in the database")
    with output.progress() as progress, tasks.on(on) as workers:
        doc = run(
            Job(
                logs=files,
                policy=Path(policy),
                options=configured(cfg, target=target, progress=progress.stage),
                as_of_ns=as_of,
                window_s=cfg.get("daily.window", 7 * 86_400.0),
                emit=_pairs(cfg.get("daily.emit") or []),
                emit_options=_settings(settings or [], cfg.get("daily.emit") or []),
                state_dir=None if state is None else Path(state),
                digests=digests,
                host=host or _host(),
                selection=opening.selection(source, cfg),
                max_delay_change=cfg.get("daily.max_delay_change", 0.25),
                hysteresis=cfg.get("daily.hysteresis", 0.05),
                dry_run=dry_run,
                strict=source.strict,
                progress=progress,
                tasks=workers,
            )
        )
    if doc["action"] == "nothing_new" and printing.fmt == "table":
        return  # cron mails whatever is printed
    printing.show(doc)
    if doc["action"] == "kept":
        raise typer.Exit(int(ExitCode.NOT_ENOUGH))


@grouped
def stats(
    source: Source,
    printing: Printing,
    by: Annotated[str, typer.Option("--by", metavar="FIELD", help="day")] = "day",
    on: On = None,
) -> None:
    printing.begin((*output.FORMATS, "prometheus"))
    if by != "day":
        raise UsageError(f"--by {by} is not known here", hint="stats are by day; hedgectl breakdown --by takes more")
    cfg = opening.settings(source)
    tz = cfg.get("tz") or "UTC"
    if on is not None:
        doc = opening.asked(source, cfg, on, "hedgectl.history", "of_rows", tz=tz)
    else:
        with output.progress("reading") as progress:
            from hedgectl import analysis, history

            files = opening.logs(source, cfg)
            with analysis.opened(files, opening.selection(source, cfg), progress, history=True) as found:
                progress.clear()
                opening.say_read(found.ingested)
                opening.strict(source, opening.in_doubt(found))
                if files.db is not None and history.is_recorded(found.con):
                    window = found.prepared.window
                    doc = history.stats(found.con, as_of=found.prepared.as_of, window=window, stored=True, tz=tz)
                else:
                    doc = history.of_rows(found.con, found.prepared, tz=tz)
    if printing.fmt == "prometheus":
        from hedgectl.cli import prometheus

        output.write_text(prometheus.text(doc), printing.out)
        return
    printing.show(doc)


@grouped
def verify(
    source: Source,
    printing: Printing,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="FILE", help="the policy that ran; - reads stdin")
    ] = None,
    billing: Annotated[
        Path | None,
        typer.Option("--billing", metavar="FILE", help="the provider's bill by day: Google Cloud export, JSON or CSV"),
    ] = None,
    billing_since: Annotated[
        str | None, typer.Option("--billing-since", metavar="DAY", help="day hedging began; default: the first copy")
    ] = None,
    billing_service: Annotated[
        list[str] | None,
        typer.Option("--billing-service", metavar="NAME", help="part of a service's name; the others are the control"),
    ] = None,
    billing_column: Annotated[
        list[str] | None,
        typer.Option("--billing-column", metavar="NAME=COLUMN", help="time, cost, currency, service of another table"),
    ] = None,
    billing_tz: Annotated[
        str | None, typer.Option("--billing-tz", metavar="ZONE", help="zone of the bill's days; default Los Angeles")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="seed of the intervals")] = None,
) -> None:
    printing.begin()
    if policy is None:
        raise UsageError("no policy is given", hint="--policy policy.json: the one that ran, with its experiment")
    cfg = opening.settings(source, seed=seed)
    from hedgectl.cli.emit import read_policy
    from hedgectl.verify import verify as run

    ran = read_policy(policy)
    with opening.opened(source, cfg) as found:
        doc: dict[str, Any] = run(found.con, ran, window=found.prepared.window, seed=cfg.get("seed", 1))
        if billing is not None:
            from hedgectl import billing as bills

            doc["billing"] = bills.compare(
                found.con,
                billing,
                since=_day(billing_since),
                services=billing_service or (),
                columns=_columns(billing_column or []),
                tz=_zone(billing_tz or bills.ZONE),
                seed=cfg.get("seed", 1),
            )
    printing.show(doc)
    if not doc["enough"]:
        raise typer.Exit(int(ExitCode.NOT_ENOUGH))


def _day(raw: str | None) -> date | None:
    if raw is None:
        return None
    try:
        return date.fromisoformat(raw)
    except ValueError:
        raise UsageError(f"--billing-since {raw} is not a day", hint="for example 2026-11-01") from None


def _zone(name: str) -> str:
    from hedgectl import analysis

    return analysis.zone(name).key


def _columns(given: list[str]) -> dict[str, str]:
    """NAME=COLUMN pairs of --billing-column."""
    known = ("time", "cost", "currency", "service")
    found: dict[str, str] = {}
    for each in given:
        name, equals, column = each.partition("=")
        if not equals or not column or name not in known:
            raise UsageError(f"--billing-column {each} is not NAME=COLUMN", hint=f"NAME is one of: {', '.join(known)}")
        found[name] = column
    return found


def _pairs(given: list[str]) -> dict[str, Path]:
    """TARGET=FILE pairs; unknown targets are refused before any work is done."""
    from hedgectl import emitters

    pairs: dict[str, Path] = {}
    for each in given:
        target, equals, path = each.partition("=")
        if not equals or not path:
            raise UsageError(f"--emit {each} is not TARGET=FILE", hint="for example --emit client=hedge.json")
        emitters.target(target)
        pairs[target] = Path(path)
    return pairs


def _settings(given: list[str], emit: list[str]) -> dict[str, dict[str, str]]:
    """Each target gets the options that it knows; an option that no target knows is refused."""
    from hedgectl import emitters
    from hedgectl.cli.emit import named_values

    targets = _pairs(emit)
    found: dict[str, dict[str, str]] = {}
    for name, value in named_values(given).items():
        takers = [t for t in targets if name in emitters.target(t).options]
        if not takers:
            raise UsageError(
                f"no emitted target knows {name}", where=f"--set {name}={value}", hint="hedgectl emit --list"
            )
        for target in takers:
            found.setdefault(target, {})[name] = value
    return found


def _host() -> str:
    import platform

    return platform.node() or "host"
