"""``probe`` and ``sandbox``: live hedged calls under caps, and an endpoint to try them on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgectl.cli import output
from hedgectl.cli.options import Printing, duration, grouped, share
from hedgectl.errors import UsageError

if TYPE_CHECKING:
    from hedgectl.probe.settings import ProbeSettings

_PROBE_HELP = """Send a few real requests, half of them hedged, and say what hedging does here. Costs money and adds load.

What would be sent at most is shown first; nothing is sent without --yes or a typed yes.

Examples:

  hedgectl probe http://127.0.0.1:8000 --delay 800ms --dry-run

  hedgectl probe https://gw.example/v1 --model chat --policy policy.json --key-env GATEWAY_KEY --yes

Keys are read from environment variables and are never flags. Latency counts from the planned start of each request.

Next: hedgectl sandbox starts an endpoint to try this on; hedgectl breakdown --db FILE reads what --db kept.
"""

_SANDBOX_HELP = """An OpenAI-compatible endpoint with slow replicas, to try probe on without an account.

Prints its address on stdout and serves until it is interrupted.

Examples:

  hedgectl sandbox --replicas 3 --slow 1 --port 8080

  hedgectl probe http://127.0.0.1:8080 --delay 300ms --yes

Next: GET /metrics shows its load under vLLM's names.
"""

_Duration = Annotated[float | None, typer.Option(parser=duration, metavar="DURATION")]


def register(app: typer.Typer) -> None:
    """Adds both commands."""
    app.command("probe", help=_PROBE_HELP)(probe)
    app.command("sandbox", help=_SANDBOX_HELP)(sandbox)


def _time(flag: str, text: str) -> Any:
    return typer.Option(flag, parser=duration, metavar="DURATION", help=text)


@grouped
def probe(
    printing: Printing,
    url: Annotated[str, typer.Argument(metavar="URL", help="base address or endpoint of the API")],
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="FILE", help="a policy.v1 file; - reads stdin")
    ] = None,
    trigger: Annotated[str | None, typer.Option("--trigger", help="first_token, response or response_headers")] = None,
    delay: Annotated[float | None, _time("--delay", "wait this long before the copy")] = None,
    deadline: Annotated[float | None, _time("--deadline", "one deadline for all attempts of a request; 60s")] = None,
    attempt_timeout: Annotated[
        float | None, _time("--attempt-timeout", "of one attempt; 9 tenths of the deadline")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", parser=share, metavar="SHARE", help="copies per hedged request; 5%")
    ] = None,
    burst: Annotated[
        int | None, typer.Option("--burst", min=1, help="copies at once before the budget binds; 100")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="answer a fast failure with an attempt from the budget")
    ] = False,
    requests: Annotated[int, typer.Option("--requests", min=1, help="hard cap, warm-up included")] = 120,
    rates: Annotated[
        str, typer.Option("--rates", metavar="R[,R...]", help="requests per second, one after the other")
    ] = "1",
    length: Annotated[float | None, _time("--duration", "stop sending after this long")] = None,
    warm_up: Annotated[int, typer.Option("--warm-up", min=0, help="first requests that do not count")] = 0,
    arms: Annotated[
        str, typer.Option("--arms", help="auto, interleaved (a coin each) or blocks (alternating)")
    ] = "auto",
    block: Annotated[float | None, _time("--block", "length of a block; a twelfth of the run, 5s to 30s")] = None,
    arrivals: Annotated[str, typer.Option("--arrivals", help="poisson or uniform")] = "poisson",
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="JSONL with prompt or messages; else built-in")
    ] = None,
    answer_tokens: Annotated[int, typer.Option("--answer-tokens", min=1, help="limit of each answer")] = 128,
    whole: Annotated[bool, typer.Option("--no-stream", help="ask for whole answers")] = False,
    allow_tools: Annotated[
        list[str] | None, typer.Option("--allow-tools", metavar="NAME", help="a tool that may run twice")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="default: the first one listed")] = None,
    route: Annotated[str | None, typer.Option("--route", help="picks the policy's entry")] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help="openai, openai-completions, anthropic or gemini; else from URL")
    ] = None,
    template: Annotated[Path | None, typer.Option("--template", help="TOML that describes any other API")] = None,
    hedge_url: Annotated[
        str | None, typer.Option("--hedge-url", metavar="URL", help="where copies go; else the same")
    ] = None,
    key_env: Annotated[str | None, typer.Option("--key-env", metavar="VARIABLE", help="holds the API key")] = None,
    hedge_key_env: Annotated[
        str | None, typer.Option("--hedge-key-env", metavar="VARIABLE", help="the key for --hedge-url on another host")
    ] = None,
    header_env: Annotated[
        list[str] | None, typer.Option("--header-env", metavar="NAME=VARIABLE", help="a header from the environment")
    ] = None,
    http2: Annotated[bool, typer.Option("--http2", help="speak HTTP/2 (needs the package h2)")] = False,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="certificates to trust")] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metrics", metavar="URL", help="engine metrics; none = do not look")
    ] = None,
    check_cancel: Annotated[
        int,
        typer.Option("--check-cancel", min=0, help="of --requests, sent last only to see whether a cancel stops work"),
    ] = 0,
    no_abort: Annotated[bool, typer.Option("--no-abort", help="cancel by closing the stream only")] = False,
    max_hedges: Annotated[int | None, typer.Option("--max-hedges", min=0, help="hard cap on copies")] = None,
    max_in_flight: Annotated[
        int | None, typer.Option("--max-hedges-in-flight", min=1, help="hard cap on copies at once")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="hard cap on all tokens of the run, worst case")
    ] = None,
    max_spend: Annotated[
        float | None, typer.Option("--max-spend", min=0, metavar="MONEY", help="hard cap on the bill, worst case")
    ] = None,
    max_time: Annotated[float | None, _time("--max-time", "hard cap on the whole run")] = None,
    price_in: Annotated[float | None, typer.Option("--price-in", min=0, help="per million prompt tokens, USD")] = None,
    price_out: Annotated[
        float | None, typer.Option("--price-out", min=0, help="per million answer tokens, USD")
    ] = None,
    config_file: Annotated[Path | None, typer.Option("--config", help="settings, for [prices]")] = None,
    db: Annotated[Path | None, typer.Option("--db", help="keep every attempt in this DuckDB file")] = None,
    seed: Annotated[int, typer.Option("--seed", help="of arrivals and coins")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the plan and send nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="send without asking")] = False,
) -> None:
    from hedgectl.probe import planning

    printing.begin()
    settings = planning.settings(
        planning.Flags(
            url=url,
            policy=None if policy is None else _policy(policy),
            trigger=trigger,
            delay_s=delay,
            deadline_s=deadline,
            attempt_timeout_s=attempt_timeout,
            budget=budget,
            burst=burst,
            retry=retry,
            requests=requests,
            rates=rates,
            duration_s=length,
            warm_up=warm_up,
            arms=arms,
            block_s=block,
            arrivals=arrivals,
            prompts=prompts,
            answer_tokens=answer_tokens,
            stream=not whole,
            allow_tools=tuple(allow_tools or ()),
            model=model,
            route=route,
            provider=provider,
            template=template,
            hedge_url=hedge_url,
            key_env=key_env,
            hedge_key_env=hedge_key_env,
            header_env=tuple(header_env or ()),
            http2=http2,
            ca_file=ca_file,
            metrics=None if metrics is None else tuple(metrics),
            check_cancel=check_cancel,
            abort=not no_abort,
            max_hedges=max_hedges,
            max_hedges_in_flight=max_in_flight,
            max_tokens=max_tokens,
            max_spend=max_spend,
            max_time_s=max_time,
            price_in=price_in,
            price_out=price_out,
            config_file=config_file,
            seed=seed,
        )
    )
    _send(settings, printing, db=db, dry_run=dry_run, yes=yes)


def _send(settings: ProbeSettings, printing: Printing, *, db: Path | None, dry_run: bool, yes: bool) -> None:
    from hedgectl.probe import planning, result

    if dry_run:
        printing.show(result.dry(settings))
        return
    for line in planning.describe(settings):
        output.message(line)
    if not yes:
        _confirm()
    from hedgectl.probe import run

    if db is not None:
        run.check_database(db)
    with output.progress() as progress:
        outcome = run.probe(settings, on_progress=progress)
    doc = result.document(outcome)
    printing.show(doc)
    if db is not None:
        output.message(f"{run.save(outcome, db)} attempts kept in {db}")
    if outcome.interrupted is not None:
        output.message(f"interrupted ({outcome.interrupted}): every attempt sent is accounted for")
        raise typer.Exit(int(run.exit_code(outcome)))
    failure = run.verdict(outcome, doc)
    if failure is not None:
        raise failure


def _policy(path: str) -> Any:
    from hedgectl.cli.emit import read_policy

    return read_policy(path)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise UsageError("nothing is sent without a yes", hint="add --yes, or --dry-run to see the plan only")
    output.message("type yes to send:")
    if sys.stdin.readline().strip().lower() != "yes":
        raise UsageError("not confirmed; nothing was sent", hint="--dry-run shows the plan only")


def sandbox(
    replicas: Annotated[int, typer.Option("--replicas", min=1, max=64, help="engines")] = 3,
    slow: Annotated[int, typer.Option("--slow", min=0, help="how many of them are slow")] = 1,
    slow_factor: Annotated[float, typer.Option("--slow-factor", min=1, help="how much longer a slow one takes")] = 5.0,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 = a free one")] = 0,
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
    routing: Annotated[str, typer.Option("--routing", help="random or least_outstanding")] = "random",
    answer_tokens: Annotated[float, typer.Option("--answer-tokens", min=1, help="median length of an answer")] = 40.0,
    max_running: Annotated[int, typer.Option("--max-running", min=1, help="sequences an engine runs at once")] = 16,
    runs_on: Annotated[bool, typer.Option("--runs-on", help="an engine goes on when its client has left")] = False,
    independent: Annotated[
        bool, typer.Option("--independent-copies", help="a copy's answer has its own length")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="of answer lengths and routing")] = 1,
    length: Annotated[float | None, _time("--for", "stop after this long")] = None,
) -> None:
    from hedgectl.probe.sandbox import serve

    serve.serve(
        serve.settings(
            replicas=replicas,
            slow=slow,
            slow_factor=slow_factor,
            routing=routing,
            answer_tokens=answer_tokens,
            max_running=max_running,
            runs_on=runs_on,
            independent=independent,
            seed=seed,
        ),
        host=host,
        port=port,
        for_s=length,
        on_ready=lambda address: output.write_text(address + "\n", None),
    )
