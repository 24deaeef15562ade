"""promtool unit tests for the emitted rules: each alert on both sides of its limit, each figure at a known value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters._text import number, quoted
from hedgectl.policy import ScopePolicy

_MINUTES: Final = 60
_PER_MINUTE: Final = 60_000  # requests; large, so that shares of them are whole numbers


def unit_tests(scopes: Mapping[str, ScopePolicy], options: Mapping[str, str]) -> dict[str, Any]:
    """The decoded test file: for each scope one run within its limits and one beyond them."""
    tests: list[dict[str, Any]] = []
    for name, each in scopes.items():
        tests += _scope_tests(name, each, options)
    return {"rule_files": [options["rules_file"]], "evaluation_interval": "1m", "tests": tests}


def _scope_tests(name: str, each: ScopePolicy, options: Mapping[str, str]) -> list[dict[str, Any]]:
    labels = _labels(each, options)
    if not each.is_on or each.hedge is None:
        return [
            _test(labels, 0, options, alerts=[("HedgingWhileOff", 20, [])]),
            _test(
                labels,
                600,
                options,
                alerts=[
                    ("HedgingWhileOff", 2, []),
                    ("HedgingWhileOff", 20, [_fired(name, labels, "page", _off_text(labels, options))]),
                ],
            ),
        ]
    budget = each.hedge.budget
    if budget is None:
        return []
    within = max(1, int(budget.ratio * _PER_MINUTE / 2))
    beyond = int(budget.ratio * _PER_MINUTE * 2)
    text = f"{labels.get(options['model_label'], '')} hedges {_percent(beyond)} of requests, the budget is "
    text += f"{number(budget.ratio * 100)}%"
    return [
        _test(labels, within, options, alerts=[("HedgeBudgetExceeded", 30, [])]),
        _test(
            labels,
            beyond,
            options,
            alerts=[
                ("HedgeBudgetExceeded", 4, []),
                ("HedgeBudgetExceeded", 30, [_fired(name, labels, "page", text)]),
            ],
        ),
    ]


def _test(
    labels: Mapping[str, str],
    hedges: int,
    options: Mapping[str, str],
    alerts: list[tuple[str, int, list[dict[str, Any]]]],
) -> dict[str, Any]:
    series = _series(labels, hedges, options)
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": _figures(labels, hedges),
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": fired} for name, minute, fired in alerts
        ],
    }


def _series(labels: Mapping[str, str], hedges: int, options: Mapping[str, str]) -> list[tuple[str, str]]:
    def grows(by: int) -> str:
        return f"0+{by}x{_MINUTES}"

    found = [
        (options["requests"] + _braces(labels), grows(_PER_MINUTE)),
        (options["hedges"] + _braces(labels), grows(hedges)),
        # every copy has one loser
        (options["cancels"] + _braces(labels), grows(hedges)),
        (options["errors"] + _braces(labels), grows(_PER_MINUTE // 100)),
        (options["cost"] + _braces(labels), grows(1100)),
        (options["wasted_cost"] + _braces(labels), grows(100)),
    ]
    # half of the answers within 1 s, all within 2 s: p50 is 1 s, p95 1.9 s, p99 1.98 s
    for le, share in (("1", 0.5), ("2", 1.0), ("+Inf", 1.0)):
        name = f"{options['duration']}_bucket"
        found.append((name + _braces({**labels, "le": le}), grows(int(share * _PER_MINUTE))))
        first = f"{options['ttfc']}_bucket"
        streamed = {**labels, "le": le, options["streamed_label"]: "true"}
        found.append((first + _braces(streamed), grows(int(share * _PER_MINUTE))))
    return found


def _figures(labels: Mapping[str, str], hedges: int) -> list[dict[str, Any]]:
    def expect(record: str, value: float, minute: int = 20) -> dict[str, Any]:
        # rounded, so that the last bit of a rate is no failure
        expr = f"round({record}{_braces(labels)}, 0.0001)"
        samples = [{"labels": _braces(labels), "value": value}]
        return {"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples}

    found = [
        expect("hedgectl:hedge_rate:5m", round(hedges / _PER_MINUTE, 4)),
        expect("hedgectl:cancels_per_request:5m", round(hedges / _PER_MINUTE, 4)),
        expect("hedgectl:error_ratio:5m", 0.01),
        expect("hedgectl:request_duration_seconds:p50_5m", 1.0),
        expect("hedgectl:request_duration_seconds:p95_5m", 1.9),
        expect("hedgectl:request_duration_seconds:p99_5m", 1.98),
        expect("hedgectl:cost_growth_ratio:1h", 0.1, 60),
    ]
    if hedges:
        found.append(expect("hedgectl:cancels_per_hedge:5m", 1.0))
    return found


def _labels(each: ScopePolicy, options: Mapping[str, str]) -> dict[str, str]:
    pairs = ((options["model_label"], each.scope.model), (options["route_label"], each.scope.route))
    return {label: text for label, text in pairs if text is not None} or {options["model_label"]: "any"}


def _fired(name: str, labels: Mapping[str, str], severity: str, summary: str) -> dict[str, Any]:
    return {"exp_labels": {**labels, "severity": severity, "scope": name}, "exp_annotations": {"summary": summary}}


def _off_text(labels: Mapping[str, str], options: Mapping[str, str]) -> str:
    return f"{labels.get(options['model_label'], '')} sends copies ({_percent(600)} of requests) although the policy is off"


def _percent(hedges: int) -> str:
    return f"{hedges / _PER_MINUTE * 100:.4g}%"  # as humanizePercentage


def _braces(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{label}={quoted(text)}" for label, text in labels.items()) + "}" if labels else ""
