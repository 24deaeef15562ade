"""``hedgectl simulate``: the replay at several loads, as is, better routed and hedged."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hedgectl.cli import opening, output
from hedgectl.cli.options import (
    Burst,
    On,
    Printing,
    Routing,
    Seed,
    Source,
    budget_or_none,
    duration,
    engine_known,
    grouped,
    one_of,
)
from hedgectl.errors import ExitCode, UsageError

_HELP = """Replay the log on a model of your engines that is fitted to it and checked against it.

Needs the engine's facts: [engine] confirmed = true in hedgectl.toml (see hedgectl config show).

Examples:

  hedgectl simulate gateway.jsonl.gz --trigger first_token --delay 1.8s --budget 5%

  hedgectl simulate gateway.jsonl.gz --policy policy.json --loads 0.5,1.0,1.5 -o json

Next: hedgectl recommend LOG searches; simulate shows one policy at each load.
"""


def register(app: typer.Typer) -> None:
    """Adds ``simulate``."""
    app.command("simulate", help=_HELP)(simulate)


def _loads(raw: str) -> list[float]:
    try:
        found = [float(part) for part in raw.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or not all(0 < load <= 100 for load in found):
        raise typer.BadParameter(f"{raw!r} is not a list of loads such as 0.5,1.0,1.5")
    return found


@grouped
def simulate(
    source: Source,
    printing: Printing,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="FILE", help="a policy document; - reads stdin")
    ] = None,
    trigger: Annotated[
        str | None, typer.Option("--trigger", metavar="CLOCK", help="first_token, response or response_headers")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option("--delay", parser=duration, metavar="DURATION", help="wait before the copy, e.g. 1.8s"),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", parser=budget_or_none, metavar="SHARE", help="copies per request, or none; default 5%"
        ),
    ] = None,
    burst: Burst = None,
    no_hedge: Annotated[bool, typer.Option("--no-hedge", help="replay without copies only")] = False,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="HOW", help="where a copy goes: as_routed, random, least_outstanding"),
    ] = None,
    cancel: Annotated[
        str | None,
        typer.Option("--cancel", metavar="HOW", help="frees_engine, engine_runs_on or unknown (the worse is shown)"),
    ] = None,
    copy_length: Annotated[
        str | None, typer.Option("--copy-length", metavar="HOW", help="same, independent or both (the worse is shown)")
    ] = None,
    routing: Routing = None,
    loads: Annotated[
        str | None, typer.Option("--loads", parser=_loads, metavar="LIST", help="times today's load, e.g. 0.5,1.0,1.5")
    ] = None,
    seed: Seed = None,
    on: On = None,
) -> None:
    printing.begin()
    one_of("--trigger", trigger, ("first_token", "response", "response_headers"))
    one_of("--target", target, ("as_routed", "random", "least_outstanding"))
    engine_known(cancel, copy_length, routing)
    given = [name for name, value in (("--policy", policy), ("--delay", delay)) if value is not None]
    given += ["--no-hedge"] if no_hedge else []
    if len(given) != 1:
        raise UsageError(
            f"{' and '.join(given)} are given together" if given else "nothing says which policy to replay",
            hint="one of: --policy FILE, or --trigger T --delay D, or --no-hedge",
        )
    if delay is not None and trigger is None:
        raise UsageError(
            "--delay needs --trigger", hint="--trigger first_token for streams, response for whole answers"
        )
    if delay == 0:
        raise UsageError("the delay must be above 0", hint="for example --delay 1.8s; for no copies at all: --no-hedge")
    cfg = opening.settings(
        source, engine__cancel=cancel, engine__routing=routing, recommend__copy_length=copy_length, seed=seed
    )
    document = opening.policy(policy)
    ratio: Any = 0.05 if budget is None else None if budget == "none" else budget  # parsed: a share, or the word none
    scales: Any = loads  # parsed: a list of numbers
    options: dict[str, Any] = {
        "policy": document,
        "trigger": trigger,
        "delay_s": delay,
        "budget": ratio,
        "burst": burst or 100,
        "target": target or "as_routed",
        "loads": scales,
    }
    doc: dict[str, Any]
    if on is not None:
        doc = opening.asked(source, cfg, on, "hedgectl.replay", "simulate_document", cfg=cfg, **options)
    else:
        with output.progress() as progress, opening.opened(source, cfg) as found:
            from hedgectl.replay import simulate_document

            doc = simulate_document(found.con, found.prepared, cfg, progress=progress, **options)
    printing.show(doc)
    if not (doc.get("replay_check") or {}).get("passed"):
        raise typer.Exit(int(ExitCode.NOT_ENOUGH))
