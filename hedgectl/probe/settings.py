"""Everything a probe run is told, checked once: target, schedule, rules, budget, caps, prices, secrets by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from hedgectl.errors import UsageError
from hedgectl.policy import Rule, ScopePolicy, Suppress, Window
from hedgectl.probe.caps import Caps, Prices
from hedgectl.probe.hedged import HedgeRules
from hedgectl.probe.wire import Prompt, Provider

_SECRET_PARAMETERS = ("key", "api_key", "api-key", "apikey", "token", "access_token", "sig", "secret", "password")


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values from the environment; never shown, not even by ``repr``."""

    key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def clean(self, text: str | None) -> str | None:
        """What a server said, unless it says a secret back: then nothing."""
        held = [self.key, *(value for _, value in self.headers)]
        return None if text is None or any(value in text for value in held if value) else text


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """One run."""

    url: str
    provider: Provider
    rules: HedgeRules
    prompts: tuple[Prompt, ...]
    caps: Caps
    model: str | None = None  # None = first of the listed models
    hedge_url: str | None = None
    stream: bool = True
    requests: int = 120
    rates: tuple[float, ...] = (1.0,)
    duration_s: float | None = None
    warm_up: int = 0
    arms: str = "auto"  # auto | interleaved | blocks
    block_s: float = 30.0
    uniform: bool = False
    seed: int = 1
    answer_tokens: int = 128
    budget_ratio: float = 0.05
    budget_burst: float = 100.0
    hedges_in_flight: int | None = None
    suppress: tuple[Suppress, ...] = ()
    eligible: tuple[Rule, ...] = ()
    windows: tuple[Window, ...] = ()  # UTC; () = at all hours
    experiment: bool = False  # the policy has switchback blocks of its own
    metrics: tuple[str, ...] | None = None  # None = where engines usually have them; () = do not look
    metrics_every_s: float = 0.5
    engine: str | None = None  # None = told by the metrics
    abort: bool = True
    check_cancel: int = 0
    http2: bool = False
    ca_file: str | None = None
    max_in_flight: int = 512
    stop_after_errors: int = 5  # failed requests in a row
    stop_error_share: float = 0.5  # of the last 20
    stop_after_429: int = 3
    prices: Prices | None = None
    policy_id: str | None = None
    different_replica: bool = False
    secrets: Secrets = Secrets()
    hedge_secrets: Secrets = Secrets()  # of the address of the copies


def rules_from(
    policy: ScopePolicy | None,
    *,
    trigger: str | None,
    delay_s: float | None,
    deadline_s: float | None,
    attempt_timeout_s: float | None,
    retry: bool,
) -> HedgeRules:
    """The hedge's rules from the policy, with flags on top. Raises UsageError if nobody says trigger or delay.

    Without a deadline anywhere it is 60 s; without an attempt timeout an attempt gets 9 tenths of the deadline.
    """
    hedge = None if policy is None else policy.hedge
    if hedge is None and delay_s is None:
        raise UsageError(
            "no delay for the copy", hint="give --policy FILE, or --delay 800ms (and --trigger, default first_token)"
        )
    chosen = trigger or (hedge.trigger if hedge is not None else "first_token")
    if chosen not in ("first_token", "response", "response_headers"):
        raise UsageError(f"--trigger {chosen}", hint="first_token, response or response_headers")
    if delay_s is None and hedge is not None:
        delay = None if chosen == hedge.trigger else hedge.delays.of(chosen)
        if chosen != hedge.trigger and delay is None:
            raise UsageError(f"the policy has no delay for --trigger {chosen}", hint="give --delay")
        delay_s = (hedge.delay_ms if delay is None else delay.ms) / 1000.0
    assert delay_s is not None
    for flag, given in (("--delay", delay_s), ("--deadline", deadline_s), ("--attempt-timeout", attempt_timeout_s)):
        if given == 0:
            raise UsageError(f"{flag} must be above 0", hint=f"for example {flag} 800ms, or leave it out")
    of_policy = hedge.deadline if hedge is not None else None
    total = deadline_s or (of_policy.total_ms / 1000.0 if of_policy else 60.0)
    attempt = attempt_timeout_s or (
        of_policy.attempt_ms / 1000.0 if of_policy and of_policy.attempt_ms and not deadline_s else total * 0.9
    )
    if attempt >= total:
        raise UsageError(
            f"an attempt may take {attempt:g} s, all of them together {total:g} s",
            hint="the attempt timeout is shorter than the deadline, so that a copy still has time",
        )
    if delay_s >= total:
        raise UsageError(f"the delay of {delay_s:g} s is not below the deadline of {total:g} s", hint="lower --delay")
    commit = hedge.commit if hedge is not None and chosen == hedge.trigger else chosen
    return HedgeRules(
        trigger=chosen,
        commit=commit,
        delay_s=delay_s,
        total_s=total,
        attempt_s=attempt,
        max_attempts=hedge.max_attempts if hedge is not None else 2,
        retry=retry,
        cancel_losers=hedge is None or hedge.cancel.loser != "none",
    )


def pick_policy(policies: Sequence[ScopePolicy], model: str | None, route: str | None) -> ScopePolicy:
    """The decision that speaks for the model and route: the narrowest scope that fits. Raises UsageError."""
    fitting = [
        p
        for p in policies
        if (model is None or p.scope.model in (None, model)) and (route is None or p.scope.route in (None, route))
    ]
    if not fitting:
        raise UsageError(
            "no entry of the policy is for this model and route",
            hint=f"it has: {', '.join(p.scope.name for p in policies)}",
        )
    fitting.sort(key=lambda p: (p.scope.model is None, p.scope.route is None, p.scope.size_class is not None))
    chosen = fitting[0]
    if model is None and len({p.scope.model for p in fitting}) > 1:
        raise UsageError(
            "the policy has entries for several models",
            hint=f"give --model, one of: {', '.join(sorted({p.scope.model or 'any' for p in fitting}))}",
        )
    if not chosen.is_on:
        raise UsageError(
            f"the policy for {chosen.scope.name} says {chosen.decision}",
            hint="nothing to try; give --trigger and --delay instead of --policy to try a copy all the same",
        )
    return chosen


def check_url(url: str, flag: str = "URL") -> str:
    """The URL, if it is http(s) and carries no secret. The message never repeats what may be one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{flag} is not an http or https address", hint="e.g. http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise UsageError(
            f"{flag} holds a user name or password", hint="name an environment variable instead: --key-env NAME"
        )
    named = [name for name, _ in parse_qsl(parts.query) if name.lower() in _SECRET_PARAMETERS]
    if named:
        raise UsageError(
            f"{flag} holds a secret in its parameter {named[0]}",
            hint="name an environment variable instead: --key-env NAME",
        )
    return url


def shown_url(url: str) -> str:
    """The URL as it may stand in a document: without query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def secrets_from(key_env: str | None, header_env: Sequence[str], environ: Mapping[str, str] | None = None) -> Secrets:
    """Reads the key and extra headers (``NAME=VARIABLE``) from the environment. Raises UsageError by variable name."""
    environ = os.environ if environ is None else environ

    def read(variable: str, flag: str) -> str:
        value = environ.get(variable, "").strip()
        if not value:
            # The text is not repeated: people paste the key itself where its name belongs.
            known = re.fullmatch(r"[A-Z][A-Z0-9_]{0,39}", variable) is not None
            shown = f"${variable}" if known else "the variable"
            raise UsageError(f"{shown} named by {flag} is not set", hint=f"{flag} wants the name of a variable")
        return value

    headers = []
    for pair in header_env:
        name, _, variable = pair.partition("=")
        if not name or not variable:
            raise UsageError("--header-env wants NAME=VARIABLE", hint="e.g. --header-env x-tenant=MY_TENANT")
        headers.append((name.strip().lower(), read(variable.strip(), "--header-env")))
    return Secrets(read(key_env, "--key-env") if key_env is not None else None, tuple(headers))
