"""``hedgectl recommend``: the main job: the split, the verdict, and a policy or a reasoned refusal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgectl.cli import blocks, opening, output
from hedgectl.cli.options import (
    Burst,
    Goal,
    MaxCost,
    On,
    Printing,
    Routing,
    Seed,
    Source,
    Target,
    budget_share,
    duration,
    engine_known,
    grouped,
    one_of,
    part,
)
from hedgectl.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hedgectl.analysis import Opened
    from hedgectl.recommend.options import Options

_HELP = """Recommend a hedging policy with its projected effect and price, or say why not and what to do instead.

Examples:

  hedgectl recommend gateway.jsonl.gz

  hedgectl recommend --db hedgectl.duckdb --window 7d --goal 'e2e_p99 < 7s' --max-cost 25% -o json > policy.json

The table shows where the time goes, the verdict and the policy; -o json prints the policy document alone.

Next: hedgectl emit policy.json --to TARGET.
"""


def register(app: typer.Typer) -> None:
    """Adds ``recommend``."""
    app.command("recommend", help=_HELP)(recommend)


@grouped
def recommend(
    source: Source,
    printing: Printing,
    goal: Goal = None,
    target: Target = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="FILE", help="price this policy instead of searching; - reads stdin"),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="FIELD",
            help="route: a decision for each route too, not only each model; size_class: one for each size of prompts",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", parser=budget_share, metavar="SHARE", help="copies per request; default 5%; none"),
    ] = None,
    burst: Burst = None,
    max_cost: MaxCost = None,
    min_gain: Annotated[
        float | None,
        typer.Option("--min-gain", parser=part, metavar="SHARE", help="gain that is worth a hedge; default 5%"),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", parser=duration, metavar="DURATION", help="total deadline of both copies"),
    ] = None,
    cancel: Annotated[
        str | None,
        typer.Option("--cancel", metavar="HOW", help="frees_engine, engine_runs_on or unknown (both must pass)"),
    ] = None,
    copy_length: Annotated[
        str | None, typer.Option("--copy-length", metavar="HOW", help="same, independent or both (both must pass)")
    ] = None,
    ready_in: Annotated[
        float | None,
        typer.Option("--ready-in", parser=duration, metavar="DURATION", help="time that a caller has, on average"),
    ] = None,
    ready_quantiles: Annotated[
        Path | None,
        typer.Option("--ready-quantiles", metavar="FILE", help='that time as {"p10": "2.1s", "p90": "7s"}'),
    ] = None,
    safety: Annotated[
        float | None, typer.Option("--safety", parser=duration, metavar="DURATION", help="margin of --ready-in")
    ] = None,
    segments: Annotated[
        str | None, typer.Option("--segments", metavar="A,B", help="only these segments may have a copy")
    ] = None,
    allow_tools: Annotated[
        str | None, typer.Option("--allow-tools", metavar="A,B", help="tools that may run twice, by name")
    ] = None,
    max_prompt_tokens: Annotated[
        int | None, typer.Option("--max-prompt-tokens", min=1, help="longest prompt that may be computed twice")
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option("--windows", metavar="HOW", help="auto: only in hours in which slow requests recur; none"),
    ] = None,
    routing: Routing = None,
    seed: Seed = None,
    on: On = None,
) -> None:
    printing.begin()
    cfg = opening.settings(
        source,
        recommend__goal=goal,
        recommend__budget=budget,
        recommend__burst=burst,
        recommend__max_cost=max_cost,
        recommend__min_gain=min_gain,
        recommend__deadline=deadline,
        recommend__copy_length=copy_length,
        recommend__segments=None if segments is None else names("--segments", segments),
        recommend__idempotent_tools=None if allow_tools is None else names("--allow-tools", allow_tools),
        recommend__max_prompt_tokens=max_prompt_tokens,
        recommend__windows=windows,
        engine__cancel=cancel,
        engine__routing=routing,
        seed=seed,
    )
    engine_known(cancel, copy_length, routing)
    one_of("--by", by, ("route", "size_class"))
    one_of("--windows", windows, ("auto", "none"))
    given = opening.policy(policy)
    folder = "" if on is None else opening.folder_for(source, on)
    with output.progress() as progress, opening.opened(source, cfg, printing) as found:
        from hedgectl import tasks
        from hedgectl.recommend import spread
        from hedgectl.recommend.configured import options as configured
        from hedgectl.recommend.run import nothing
        from hedgectl.recommend.run import recommend as run

        options = configured(
            cfg,
            target=target,
            policy=given,
            by_route=by == "route",
            by_size=by == "size_class",
            ready=ready_of(ready_in, ready_quantiles, safety),
            progress=progress.stage,
        )
        diagnosis = None
        if printing.fmt == "table":
            shown, diagnosis = _split_and_verdict(found, options)
        if found.empty:
            doc = nothing(found.prepared, options)
        elif on is not None:
            with tasks.on(on) as workers:
                limit = cfg.get("memory_limit")
                doc = spread.recommended(found.con, found.prepared, options, workers, folder, limit, diagnosis).document
                opening.told(workers)
        else:
            doc = run(found.con, found.prepared, options, diagnosis)
    if printing.fmt == "table":
        views = [*shown, *_views(doc)]
        output.view(views, "table", printing.out)
    else:
        printing.show(doc)
    if any(p["decision"] == "not_enough_data" for p in doc["policies"]) and not any(
        p["decision"] == "hedge" for p in doc["policies"]
    ):
        raise typer.Exit(int(ExitCode.NOT_ENOUGH))


def _split_and_verdict(found: Opened, options: Options) -> tuple[list[Any], dict[str, Any]]:
    """What is shown of both, and the diagnosis, which the recommendation rests on as well."""
    from hedgectl.breakdown import breakdown
    from hedgectl.diagnose import diagnose

    options.say("dividing the time", 0.0)
    split = breakdown(found.con, found.prepared)
    options.say("diagnosing", 0.0)
    verdict = diagnose(found.con, found.prepared, seed=options.seed)
    # in short: diagnose has the evidence in tables, and the notes of one selection are printed once, with the policy
    said = [
        block
        for block in _views({**verdict, "window": {}, "notes": [], "advice": []})
        if isinstance(block, blocks.Text)
    ]
    return [*_views({**split, "notes": []}), *said], verdict


def _views(doc: dict[str, Any]) -> list[Any]:
    from hedgectl.cli import views

    return list(views.of(doc))


def ready_of(seconds: float | None, path: Path | None, safety: float | None) -> Any:
    """What the time flags say together; None without any."""
    from hedgectl.recommend import ready

    if seconds is not None and path is not None:
        raise UsageError("--ready-in and --ready-quantiles both say the time", hint="give one of them")
    if seconds is not None:
        return ready.average(seconds, safety or 0.0)
    if path is not None:
        return ready.from_file(path, safety or 0.0)
    if safety is not None:
        raise UsageError("--safety of what?", hint="--ready-in 4.8s --safety 1s")
    return None


def names(flag: str, raw: str) -> list[str]:
    found = [part.strip() for part in raw.split(",") if part.strip()]
    if not found:
        raise UsageError(f"{flag} names nothing", hint=f"for example {flag} a,b")
    return found
