"""From flags to checked settings, and the lines that say what would be sent before anything is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hedgectl import config
from hedgectl.errors import UsageError
from hedgectl.policy import Budget, PolicyDocument, Suppress, Window
from hedgectl.probe import prompts, providers, result
from hedgectl.probe.caps import Caps, Prices
from hedgectl.probe.providers import generic
from hedgectl.probe.settings import ProbeSettings, Secrets, check_url, pick_policy, rules_from, secrets_from, shown_url

# Blocks of a twelfth of the run give six pairs to resample; shorter ones would leak into each other.
BLOCKS, SHORTEST_BLOCK_S, LONGEST_BLOCK_S = 12, 5.0, 30.0
ARMS = ("auto", "interleaved", "blocks")
# Without a policy: no copy while, on average, a request waits for each engine.
DEFAULT_SUPPRESS = (Suppress("waiting_requests_per_replica", ">=", 1.0, "a copy would only queue", "default"),)


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line of ``probe``, as typed; seconds."""

    url: str
    policy: PolicyDocument | None = None
    trigger: str | None = None
    delay_s: float | None = None
    deadline_s: float | None = None
    attempt_timeout_s: float | None = None
    budget: float | None = None
    burst: int | None = None
    retry: bool = False
    requests: int = 120
    rates: str = "1"
    duration_s: float | None = None
    warm_up: int = 0
    arms: str = "auto"
    block_s: float | None = None
    arrivals: str = "poisson"
    prompts: Path | None = None
    answer_tokens: int = 128
    stream: bool = True
    allow_tools: tuple[str, ...] = ()
    model: str | None = None
    route: str | None = None
    provider: str | None = None
    template: Path | None = None
    hedge_url: str | None = None
    key_env: str | None = None
    hedge_key_env: str | None = None
    header_env: tuple[str, ...] = ()
    http2: bool = False
    ca_file: Path | None = None
    metrics: tuple[str, ...] | None = None
    check_cancel: int = 0
    abort: bool = True
    max_hedges: int | None = None
    max_hedges_in_flight: int | None = None
    max_tokens: int | None = None
    max_spend: float | None = None
    max_time_s: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    config_file: Path | None = None
    seed: int = 1


def settings(f: Flags) -> ProbeSettings:
    """Checks everything that can be checked without sending. Raises UsageError or InputError."""
    url = check_url(f.url)
    if f.hedge_url is not None:
        check_url(f.hedge_url, "--hedge-url")
    for page in f.metrics or ():
        if page != "none":
            check_url(page, "--metrics")
    if f.arms not in ARMS:
        raise UsageError(f"--arms {f.arms}", hint=", ".join(ARMS))
    if f.arrivals not in ("poisson", "uniform"):
        raise UsageError(f"--arrivals {f.arrivals}", hint="poisson or uniform")
    if f.warm_up + f.check_cancel >= f.requests:
        raise UsageError("warm-up and cancel checks leave no request to measure", hint="raise --requests")
    if f.http2:
        _needs_h2()
    scope = None if f.policy is None else pick_policy(f.policy.policies, f.model, f.route)
    hedge = None if scope is None else scope.hedge
    rules = rules_from(
        scope,
        trigger=f.trigger or ("response" if scope is None and not f.stream else None),
        delay_s=f.delay_s,
        deadline_s=f.deadline_s,
        attempt_timeout_s=f.attempt_timeout_s,
        retry=f.retry,
    )
    of_policy = hedge.budget if hedge is not None else Budget()
    ratio = f.budget if f.budget is not None else (of_policy.ratio if of_policy else 1.0)
    burst = float(f.burst if f.burst is not None else (of_policy.burst if of_policy else 1_000_000))
    flying = [n for n in (f.max_hedges_in_flight, of_policy.max_concurrent if of_policy else None) if n is not None]
    model = f.model or (scope.scope.model if scope is not None else None)
    prices = _prices(f, model)
    if f.max_spend is not None and prices is None:
        raise UsageError(
            "--max-spend without prices: the bill cannot be known",
            hint='give --price-in and --price-out (per million tokens), or [prices."MODEL"] in --config',
        )
    return ProbeSettings(
        url=url,
        provider=generic.load(f.template) if f.template is not None else providers.choose(url, f.provider),
        rules=rules,
        prompts=prompts.built_in() if f.prompts is None else prompts.load(f.prompts, allow_tools=f.allow_tools),
        caps=Caps(
            requests=f.requests,
            hedges=f.requests if f.max_hedges is None else f.max_hedges,
            tokens=f.max_tokens,
            spend=f.max_spend,
            time_s=f.max_time_s,
        ),
        model=model,
        hedge_url=f.hedge_url,
        stream=f.stream,
        requests=f.requests,
        rates=_rates(f.rates),
        duration_s=f.duration_s,
        warm_up=f.warm_up,
        arms=f.arms,
        block_s=f.block_s or _block(f),
        uniform=f.arrivals == "uniform",
        seed=f.seed,
        answer_tokens=f.answer_tokens,
        budget_ratio=ratio,
        budget_burst=burst,
        hedges_in_flight=min(flying) if flying else None,
        suppress=DEFAULT_SUPPRESS if scope is None else scope.suppress_when,
        eligible=() if scope is None else scope.eligible,
        windows=() if scope is None else scope.windows_utc,
        experiment=scope is not None and scope.experiment is not None,
        metrics=None if f.metrics is None else tuple(page for page in f.metrics if page != "none"),
        abort=f.abort and (hedge is None or hedge.cancel.loser == "engine_abort"),
        check_cancel=f.check_cancel,
        http2=f.http2,
        ca_file=None if f.ca_file is None else str(f.ca_file),
        prices=prices,
        policy_id=None if f.policy is None else f.policy.policy_id(),
        different_replica=hedge is not None and hedge.target.different_replica,
        secrets=secrets_from(f.key_env, f.header_env),
        hedge_secrets=_hedge_secrets(f),
    )


def _hedge_secrets(f: Flags) -> Secrets:
    """The key goes to another host only if it is named for it; further headers do not go there at all."""
    same_host = f.hedge_url is None or urlsplit(f.hedge_url).hostname == urlsplit(f.url).hostname
    if same_host:
        return secrets_from(f.hedge_key_env or f.key_env, f.header_env)
    if f.hedge_key_env is None and f.key_env is not None:
        raise UsageError(
            "copies go to another host, and no key is named for it",
            hint="give --hedge-key-env VARIABLE; it may name the same variable as --key-env",
        )
    return secrets_from(f.hedge_key_env, ())


def _block(f: Flags) -> float:
    rates = _rates(f.rates)
    length = sum(f.requests / len(rates) / rate for rate in rates)
    return min(max(min(length, f.duration_s or length) / BLOCKS, SHORTEST_BLOCK_S), LONGEST_BLOCK_S)


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate <= 10_000 for rate in rates):
        raise UsageError(f"--rates {text}", hint="requests per second, e.g. 0.5,1,2")
    return rates


def _needs_h2() -> None:
    from importlib.util import find_spec

    if find_spec("h2") is None:
        raise UsageError("--http2 needs the package h2", hint="pip install 'hedgectl[http2]'")


def _prices(f: Flags, model: str | None) -> Prices | None:
    """Flags, else the settings file, else the public list for addresses that are not local; None if unknown."""
    if f.price_in is not None or f.price_out is not None:
        if f.price_in is None or f.price_out is None:
            raise UsageError("one price alone", hint="give both --price-in and --price-out")
        return Prices(f.price_in, f.price_out)
    table = config.load(f.config_file).prices
    given = table.get(model or "") or table.get("*")
    if given is not None:
        return Prices(
            float(given.get("input_per_mtok", 0.0)),
            float(given.get("output_per_mtok", 0.0)),
            given.get("cached_input_per_mtok"),
            str(given.get("currency", "USD")),
            "config",
        )
    if model is None or _local(f.url):
        return None
    from hedgectl import cost

    public = cost.public_prices(model)
    if public is None:
        return None
    return Prices(public.input * 1e6, public.output * 1e6, public.cached_input * 1e6, public.currency, "public")


def _local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or "." not in host


def hours(window: Window) -> str:
    """A window in words."""
    days = "" if len(window.days) == 7 else f" on days {','.join(str(day) for day in window.days)}"
    return f"{window.start}-{window.end}{days}"


def describe(s: ProbeSettings) -> list[str]:
    """The plan in words: number, tokens, money, time."""
    plan = result.plan(s, s.arms == "blocks")
    money = (
        "cost unknown: no price for this model"
        if plan["cost_at_most"] is None
        else (
            f"about {plan['cost_at_most']:.4f} {plan['currency']} at most ({s.prices.source if s.prices else ''} prices)"
        )
    )
    cap = "" if plan["spend_cap"] is None else f", never more than {plan['spend_cap']:g}"
    tokens = f"about {plan['tokens_expected_at_most']:,} tokens at most"
    hard = f", never more than {plan['tokens_cap']:,}" if plan["tokens_cap"] is not None else ""
    rates = ", ".join(f"{rate:g}" for rate in s.rates)
    copies = f"{plan['requests']} requests and at most {plan['copies_at_most']} copies"
    lines = [
        f"to {shown_url(s.provider.resolve(s.url))}: {copies} at {rates} per second, about {plan['duration_s']:g} s",
        f"{tokens}{hard}; {money}{cap}",
        f"copy after {plan['delay_ms']:g} ms without {s.rules.trigger.replace('_', ' ')}, deadline {plan['deadline_ms']:g} ms",
    ]
    if s.budget_ratio < 1.0:
        share = f"{100 * s.budget_ratio:.3g} % of requests"
        lines.append(
            f"budget {share} in the long run; a burst of {s.budget_burst:g} goes before it holds any copy back"
        )
    if s.windows:
        lines.append(f"copies only within the policy's hours (UTC): {', '.join(hours(w) for w in s.windows)}")
    if s.hedge_url is not None:
        lines.append(f"copies go to {shown_url(s.provider.resolve(s.hedge_url))}")
    return lines
