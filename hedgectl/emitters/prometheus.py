"""Prometheus recording and alert rules that watch a policy, and (``--tests``) promtool unit tests of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hedgectl.emitters import _yaml
from hedgectl.emitters._plan import common_losses
from hedgectl.emitters._prometheus_tests import unit_tests
from hedgectl.emitters._seam import Lint, Loss, Traits, Unreadable
from hedgectl.emitters._text import header, number, quoted, slugs
from hedgectl.policy import TRIGGERS, PolicyDocument, ScopePolicy, Suppress

TITLE: Final = "Prometheus recording and alert rules (YAML; --tests: promtool unit tests)"
SUFFIX: Final = ".yaml"
FORMS: Final = ("rules", "tests")
# names of series and labels in one's own Prometheus
OPTIONS: Final[Mapping[str, str]] = {
    "duration": "llm_request_duration_seconds",
    "ttfc": "llm_time_to_first_chunk_seconds",
    "requests": "llm_requests_total",
    "errors": "llm_request_errors_total",
    "hedges": "llm_hedges_launched_total",
    "cancels": "llm_attempts_cancelled_total",
    "cost": "llm_cost_usd_total",
    "wasted_cost": "llm_wasted_cost_usd_total",
    "model_label": "model",
    "route_label": "route",
    "streamed_label": "streamed",
    "waiting": "vllm:num_requests_waiting",
    "running": "vllm:num_requests_running",
    "kv_cache": "vllm:kv_cache_usage_perc",
    "rules_file": "hedgectl-rules.yaml",
}
_METRICS: Final[Mapping[str, str]] = {
    "waiting_requests_per_replica": "waiting",
    "running_requests_per_replica": "running",
    "kv_cache_usage_ratio": "kv_cache",
}
TRAITS: Final = Traits(
    sees=frozenset(TRIGGERS),
    hedges=False,
    rules=None,
    windows=True,
    experiment=True,
    signals=frozenset({*_METRICS, "error_ratio", "hedge_rate"}),
    scopes=frozenset({"model", "route"}),
)
_DEFAULT_COST_GROWTH: Final = 0.10
_HARM: Final = 1.03  # p99 may not be above the unhedged one; 3 % is the noise the policy's own rules allow


def supports(policy: PolicyDocument) -> list[Loss]:
    """It watches and does not hedge: only signals without a series are lost."""
    return common_losses(policy, TRAITS, "prometheus")


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """Two groups: figures by model (p50/p95/p99, cancels, cost growth, TTFC, hedge rate), and alerts by scope."""
    if form == "tests":
        return header(policy, "prometheus --tests", "#") + _yaml.dump(unit_tests(by_labels(policy), options))
    groups = [
        {"name": "hedgectl-figures", "interval": "30s", "rules": _figures(policy, options)},
        {
            "name": "hedgectl-alerts",
            "rules": [
                rule for name, each in by_labels(policy).items() for rule in _alerts(name, each, policy, options)
            ],
        },
    ]
    return header(policy, "prometheus", "#") + _yaml.dump({"groups": groups})


def check(text: str) -> list[Lint]:
    """Shape only; promtool says the rest. An alert without ``for`` fires on a single sample."""
    documents = _yaml.load(text)
    groups = documents[0].get("groups") if documents and isinstance(documents[0], dict) else None
    if not isinstance(groups, list):
        raise Unreadable("no rule groups")
    rules = [
        rule
        for group in groups
        if isinstance(group, dict)
        for rule in group.get("rules") or []
        if isinstance(rule, dict)
    ]
    lints = [
        Lint("no_for", "warning", str(rule["alert"]), "no `for`: one slow minute fires it")
        for rule in rules
        if "alert" in rule and "for" not in rule
    ]
    if not any("hedge" in str(rule.get("expr", "")) for rule in rules):
        lints.append(Lint("no_hedges", "warning", "groups", "no rule looks at hedges"))
    return lints


def _figures(policy: PolicyDocument, options: Mapping[str, str]) -> list[dict[str, str]]:
    by = _labels(policy, options)
    rules = [
        {
            "record": f"hedgectl:request_duration_seconds:p{quantile}_5m",
            "expr": f"histogram_quantile(0.{quantile}, sum by (le, {by}) (rate({options['duration']}_bucket[5m])))",
        }
        for quantile in ("50", "95", "99")
    ]
    streamed = options["streamed_label"]
    rules += [
        {
            # streamed and whole answers apart: their mixture moves when only the mix does
            "record": f"hedgectl:ttfc_seconds:p{quantile}_5m",
            "expr": f"histogram_quantile(0.{quantile}, sum by (le, {by}, {streamed}) (rate({options['ttfc']}_bucket[5m])))",
        }
        for quantile in ("50", "95", "99")
    ]

    def ratio(top: str, bottom: str, window: str = "5m") -> str:
        return f"sum by ({by}) (rate({options[top]}[{window}])) / sum by ({by}) (rate({options[bottom]}[{window}]))"

    wasted, cost = (f"sum by ({by}) (increase({options[name]}[1h]))" for name in ("wasted_cost", "cost"))
    return [
        *rules,
        {"record": "hedgectl:hedge_rate:5m", "expr": ratio("hedges", "requests")},
        {"record": "hedgectl:cancels_per_request:5m", "expr": ratio("cancels", "requests")},
        {"record": "hedgectl:cancels_per_hedge:5m", "expr": ratio("cancels", "hedges")},
        {"record": "hedgectl:error_ratio:5m", "expr": ratio("errors", "requests")},
        # growth against what the same requests would have cost without their losers
        {"record": "hedgectl:cost_growth_ratio:1h", "expr": f"{wasted} / ({cost} - {wasted})"},
    ]


def _labels(policy: PolicyDocument, options: Mapping[str, str]) -> str:
    names = [options["model_label"]]
    if any(each.scope.route is not None for each in policy.policies):
        names.append(options["route_label"])
    return ", ".join(names)


def by_labels(policy: PolicyDocument) -> dict[str, ScopePolicy]:
    """One scope for each set of labels, by a name that is safe in a template; of scopes that differ in size alone the
    one that may send most copies."""
    groups: dict[tuple[str | None, str | None], list[ScopePolicy]] = {}
    for each in policy.policies:
        groups.setdefault((each.scope.model, each.scope.route), []).append(each)
    chosen = [max(members, key=_allowed) for members in groups.values()]
    return dict(zip(slugs([each.scope.name for each in chosen]), chosen, strict=True))


def _allowed(each: ScopePolicy) -> float:
    if not each.is_on or each.hedge is None:
        return -1.0
    return 1.0 if each.hedge.budget is None else each.hedge.budget.ratio


def _series(record: str, each: ScopePolicy, policy: PolicyDocument, options: Mapping[str, str]) -> str:
    """The record for one scope, without what a more specific scope decides."""
    others = [
        other
        for other in by_labels(policy).values()
        if other is not each
        and all(
            mine is None or mine == theirs
            for mine, theirs in ((each.scope.model, other.scope.model), (each.scope.route, other.scope.route))
        )
    ]
    own = record + _matcher(each, options)
    if not others:
        return own
    return "(" + " unless ".join([own, *(record + _matcher(other, options) for other in others)]) + ")"


def _matcher(each: ScopePolicy, options: Mapping[str, str]) -> str:
    pairs = ((options["model_label"], each.scope.model), (options["route_label"], each.scope.route))
    texts = [f"{label}={quoted(text)}" for label, text in pairs if text is not None]
    return "{" + ", ".join(texts) + "}" if texts else ""


def _alerts(label: str, each: ScopePolicy, policy: PolicyDocument, options: Mapping[str, str]) -> list[dict[str, Any]]:
    def of(record: str) -> str:
        return _series(record, each, policy, options)

    model = "{{ $labels." + options["model_label"] + " }}"  # never the name itself: it would be read as a template
    share = "{{ $value | humanizePercentage }}"

    def alert(name: str, expr: str, hold: str, severity: str, summary: str) -> dict[str, Any]:
        return {
            "alert": name,
            "expr": expr,
            "for": hold,
            "labels": {"severity": severity, "scope": label},
            "annotations": {"summary": summary},
        }

    if not each.is_on or each.hedge is None:
        return [
            alert(
                "HedgingWhileOff",
                f"{of('hedgectl:hedge_rate:5m')} > 0",
                "5m",
                "page",
                f"{model} sends copies ({share} of requests) although the policy is off",
            )
        ]
    found: list[dict[str, Any]] = []
    budget = each.hedge.budget
    if budget is not None:
        limit = number(budget.ratio * 100)
        found.append(
            alert(
                "HedgeBudgetExceeded",
                f"{of('hedgectl:hedge_rate:5m')} > {number(budget.ratio)}",
                "10m",
                "page",
                f"{model} hedges {share} of requests, the budget is {limit}%",
            )
        )
    growth = _cost_limit(each, policy)
    found.append(
        alert(
            "HedgeCostGrowthHigh",
            f"{of('hedgectl:cost_growth_ratio:1h')} > {number(growth)}",
            "30m",
            "ticket",
            f"{model} costs {share} more for losing attempts, the limit is {number(growth * 100)}%",
        )
    )
    p99 = _projected_p99_s(each)
    if p99 is not None:
        found.append(
            alert(
                "HedgedP99AboveUnhedged",
                f"{of('hedgectl:request_duration_seconds:p99_5m')} > {number(p99 * _HARM)}",
                "30m",
                "page",
                f"{model} has a p99 of {{{{ $value | humanizeDuration }}}}, unhedged it was {number(p99)}s: hedging may do harm",
            )
        )
    goal = policy.goal
    if goal.below_ms is not None and goal.metric == "e2e_p99_ms":
        limit_s = number(goal.below_ms / 1000)
        found.append(
            alert(
                "P99AboveGoal",
                f"{of('hedgectl:request_duration_seconds:p99_5m')} > {limit_s}",
                "30m",
                "ticket",
                f"{model} has a p99 of {{{{ $value | humanizeDuration }}}}, the goal is {limit_s}s",
            )
        )
    pauses = [
        alert(
            "HedgingShouldPause",
            _signal(entry, of, options),
            "2m",
            "page",
            f"{entry.signal} is {{{{ $value | humanize }}}}: no copies {entry.op} {number(entry.value)}",
        )
        for entry in each.suppress_when
        if entry.signal in TRAITS.signals
    ]
    signals = [entry.signal for entry in each.suppress_when if entry.signal in TRAITS.signals]
    for rule, signal in zip(pauses, signals, strict=True):
        rule["labels"]["signal"] = signal
    return found + pauses


def _signal(entry: Suppress, of: Callable[[str], str], options: Mapping[str, str]) -> str:
    if entry.signal in _METRICS:
        left = f"avg({options[_METRICS[entry.signal]]})"
    else:
        left = of(f"hedgectl:{entry.signal}:5m")
    return f"{left} {entry.op} {number(entry.value)}"


def _cost_limit(each: ScopePolicy, policy: PolicyDocument) -> float:
    if policy.goal.max_cost_delta_ratio is not None:
        return policy.goal.max_cost_delta_ratio
    cost = (each.projection or {}).get("cost")
    high = cost.get("high_ratio") if isinstance(cost, dict) else None
    return float(high) if isinstance(high, int | float) and high > 0 else _DEFAULT_COST_GROWTH


def _projected_p99_s(each: ScopePolicy) -> float | None:
    arm = (each.projection or {}).get("unhedged")
    e2e = arm.get("e2e_ms") if isinstance(arm, dict) else None
    p99 = e2e.get("p99") if isinstance(e2e, dict) else None
    return float(p99) / 1000 if isinstance(p99, int | float) and p99 > 0 else None
