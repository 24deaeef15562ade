""".NET settings of ``AddStandardHedgingHandler`` (Microsoft.Extensions.Http.Resilience on Polly 8), as appsettings JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hedgectl.emitters._plan import Plan, common_losses, plan
from hedgectl.emitters._seam import Lint, Loss, Traits, Unreadable
from hedgectl.emitters._text import expires_at, slugs, timespan
from hedgectl.policy import PolicyDocument

TITLE: Final = ".NET standard hedging handler, Polly 8 (appsettings JSON)"
SUFFIX: Final = ".json"
OPTIONS: Final[Mapping[str, str]] = {"section": "HttpClients", "client": "llm"}
TRAITS: Final = Traits(
    # The handler stands inside HttpClient, whose SendAsync ends at the headers; buffering comes after it.
    sees=frozenset({"response_headers"}),
    whole_answers=True,
    budget=False,
    rules_nearest="not tested, POST is hedged too: send such requests through a client without the handler",
    clock_nearest="two settings files, switched from outside (they are reloaded while running)",
    recommend_for="polly",
    scopes=frozenset({"model", "route", "size_class"}),
)

_DAY_MS: Final = 86_400_000
_NO_DEADLINE_MS: Final = 3_600_000
_ONLY_AFTER_FAILURE: Final = "-00:00:00.001"


def supports(policy: PolicyDocument) -> list[Loss]:
    """No budget, no other replica by itself, one clock at headers, and an "off" that still retries."""
    losses = common_losses(policy, TRAITS, "polly")
    for each in policy.policies:
        name = each.scope.name
        if not each.is_on:
            losses.append(
                Loss(
                    name,
                    "decision",
                    each.decision,
                    "no copy of a slow request, but one more attempt after a failure; remove the handler to stop that",
                )
            )
        elif each.hedge is not None and each.hedge.deadline is None:
            losses.append(Loss(name, "hedge.deadline", "the caller's own", "Polly always has one: 1 hour"))
    return losses


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """One named client a scope, bound with ``GetSection("HttpClients:NAME:Hedging")``."""
    plans = [plan(each, TRAITS) for each in policy.policies]
    # a colon would cut a configuration key in two, so the names are plain words
    names = slugs([each.scope.name if each.scope.name != "all requests" else options["client"] for each in plans])
    return (
        json.dumps(
            {
                "Hedgectl": {"PolicyId": policy.policy_id(), "ExpiresAt": expires_at(policy)},
                options["section"]: {
                    name: {"Hedging": _section(each)} for name, each in zip(names, plans, strict=True)
                },
            },
            indent=2,
        )
        + "\n"
    )


def check(text: str) -> list[Lint]:
    """The rules of the options validator, and spellings that .NET reads as something else."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    lints: list[Lint] = []
    sections = list(_sections(found, ""))
    for where, section in sections:
        lints += _check_section(section, where)
    if not sections:
        lints.append(Lint("no_hedging", "warning", "Hedging", "there is no section with MaxHedgedAttempts or Delay"))
    return lints


def _section(each: Plan) -> dict[str, Any]:
    total = min(each.total_ms or _NO_DEADLINE_MS, _DAY_MS)
    attempt = min(each.attempt_ms or total, total, _DAY_MS // 2)
    hedging = {"MaxHedgedAttempts": 1, "Delay": _ONLY_AFTER_FAILURE}
    if each.on:
        # Polly counts copies, not attempts; the validator wants copies x delay within the total
        extra = max(1, min(each.extra, total // each.delay_ms))
        hedging = {"MaxHedgedAttempts": extra, "Delay": timespan(each.delay_ms)}
    return {
        "TotalRequestTimeout": {"Timeout": timespan(total)},
        "Hedging": hedging,
        "Endpoint": {
            "Timeout": {"Timeout": timespan(attempt)},
            # the validator wants at least twice the attempt timeout; the rest are the handler's own defaults
            "CircuitBreaker": {
                "SamplingDuration": timespan(max(30_000, 2 * attempt)),
                "FailureRatio": 0.1,
                "MinimumThroughput": 100,
                "BreakDuration": "00:00:05",
            },
        },
    }


def _sections(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        inner = node.get("Hedging")
        if isinstance(inner, dict) and ("MaxHedgedAttempts" in inner or "Delay" in inner):
            yield path or "top", node
        for key, value in node.items():
            yield from _sections(value, f"{path}:{key}" if path else key)


def _check_section(section: dict[str, Any], where: str) -> list[Lint]:
    lints: list[Lint] = []

    def read(*keys: str) -> int | None:
        node: Any = section
        for key in keys:
            node = node.get(key) if isinstance(node, dict) else None
        if node is None:
            return None
        ms = _timespan_ms(node)
        path = f"{where}:{':'.join(keys)}"
        if ms is None:
            lints.append(Lint("bad_timespan", "error", path, f"{node!r} is not a TimeSpan: hh:mm:ss.fff"))
        elif ms >= _DAY_MS and re.fullmatch(r"\d+", str(node)):
            lints.append(Lint("days", "error", path, f"{node!r} is {node} days to .NET: write hh:mm:ss.fff"))
        return ms

    # absent keys take the handler's own defaults
    total = read("TotalRequestTimeout", "Timeout")
    attempt = read("Endpoint", "Timeout", "Timeout")
    sampling = read("Endpoint", "CircuitBreaker", "SamplingDuration")
    delay = read("Hedging", "Delay")
    total, attempt, sampling = (total or 30_000, attempt or 10_000, sampling or 30_000)
    extra = section["Hedging"].get("MaxHedgedAttempts", 1)
    if not isinstance(extra, int) or not 1 <= extra <= 10:
        text = f"{extra!r} is refused: 1 to 10, copies only, the first attempt not counted"
        return [*lints, Lint("bad_attempts", "error", f"{where}:Hedging:MaxHedgedAttempts", text)]
    if attempt > total:
        text = f"attempt timeout of {attempt} ms above the total of {total} ms: the options validator throws"
        lints.append(Lint("attempt_above_total", "error", f"{where}:Endpoint:Timeout", text))
    if sampling < 2 * attempt:
        text = f"SamplingDuration {sampling} ms is below twice the attempt timeout {attempt} ms: the validator throws"
        lints.append(Lint("sampling_short", "error", f"{where}:Endpoint:CircuitBreaker", text))
    if delay is None:
        delay = 2000
    if delay > 0 and extra * delay > total:
        text = f"{extra} copies every {delay} ms exceed the total of {total} ms: the validator throws"
        lints.append(Lint("copies_above_total", "error", f"{where}:Hedging", text))
    elif delay >= attempt:
        text = (
            f"{delay} ms is not below the attempt timeout {attempt} ms: the first attempt is given up before the copy"
        )
        lints.append(Lint("never_hedges", "error", f"{where}:Hedging:Delay", text))
    if delay == 0:
        lints.append(Lint("at_once", "warning", f"{where}:Hedging:Delay", "0: all copies start at once"))
    elif delay < 0:
        text = "negative: a copy only after a failure, never of a slow request"
        lints.append(Lint("no_hedging", "warning", f"{where}:Hedging:Delay", text))
    return lints


_TIMESPAN: Final = re.compile(r"(-?)(?:(\d+)\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,7}))?)?")


def _timespan_ms(found: Any) -> int | None:
    text = found if isinstance(found, str) else ""
    if re.fullmatch(r"-?\d+", text):
        return int(text) * _DAY_MS
    match = _TIMESPAN.fullmatch(text)
    if match is None:
        return None
    sign, days, hours, minutes, secs, fraction = match.groups()
    if int(hours) > 23 or int(minutes) > 59 or int(secs or 0) > 59:
        return None
    ms = int(days or 0) * _DAY_MS + int(hours) * 3_600_000 + int(minutes) * 60_000 + int(secs or 0) * 1000
    ms += int((fraction or "0").ljust(7, "0")) // 10_000
    return -ms if sign else ms
