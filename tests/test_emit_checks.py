"""What runtimes accept in silence and then do not do, in files that someone else wrote."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from hedgectl import emitters


def codes(target: str, text: str) -> list[str]:
    return [lint.code for lint in emitters.check(textwrap.dedent(text), target)]


ENVOY = """
routes:
- name: hedged
  match: {prefix: /}
  route:
    cluster: c
    timeout: 20s
    retry_policy:
      retry_on: 5xx,reset
      num_retries: 1
      per_try_timeout: 1.850s
      retry_host_predicate: [{name: envoy.retry_host_predicates.previous_hosts}]
    hedge_policy: {hedge_on_per_try_timeout: true}
request_body_buffer_limit: 4194304
"""


def test_a_good_envoy_route_has_no_lint() -> None:
    assert codes("envoy", ENVOY) == []


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("retry_on: 5xx,reset", "retry_on: reset", "no_5xx"),
        ("retry_on: 5xx,reset", "retry_on: gateway-error", None),
        ("retry_on: 5xx,reset", "retry_on: banana", "no_retry_on"),
        ("retry_on: 5xx,reset", "retry_on: 5xx,banana", "unknown_word"),
        ("      retry_on: 5xx,reset\n", "", "no_retry_on"),
        ("num_retries: 1", "num_retries: 0", "no_copies"),
        ("      num_retries: 1\n", "", None),  # Envoy's default is 1
        ("per_try_timeout: 1.850s", "per_try_timeout: 20s", "never_hedges"),
        ("per_try_timeout: 1.850s", "per_try_timeout: 0s", "no_delay"),
        ("      per_try_timeout: 1.850s\n", "", "no_delay"),
        ("    timeout: 20s\n", "", None),  # 15 s by default
        ("    timeout: 20s", "    timeout: 0s", None),  # none
        ("    timeout: 20s", "    timeout: 1.5s", "never_hedges"),
        ("timeout: 20s\n    retry_policy:", "timeout: 20s\n    other_policy:", "no_retry_policy"),
        ("hedge_on_per_try_timeout: true", "hedge_on_per_try_timeout: 'yes'", "quoted_bool"),
        ("hedge_on_per_try_timeout: true", "hedge_on_per_try_timeout: true, initial_requests: 2", "not_implemented"),
        ("hedge_on_per_try_timeout: true", "initial_requests: 2", "not_implemented"),
        (
            "hedge_on_per_try_timeout: true",
            "hedge_on_per_try_timeout: true, additional_request_chance: {numerator: 5}",
            "not_implemented",
        ),
        ("      retry_host_predicate: [{name: envoy.retry_host_predicates.previous_hosts}]\n", "", "same_host"),
        ("request_body_buffer_limit: 4194304", "name: v", "body_buffer"),
        ("hedge_policy: {hedge_on_per_try_timeout: true}", "hedgePolicy: {hedgeOnPerTryTimeout: true}", None),
    ],
)
def test_envoy_routes(old: str, new: str, code: str | None) -> None:
    assert old in ENVOY
    assert codes("envoy", ENVOY.replace(old, new)) == ([] if code is None else [code])


def test_envoy_virtual_host_policies_are_inherited() -> None:
    inherited = """
    virtual_hosts:
    - name: v
      request_body_buffer_limit: 1
      hedge_policy: {hedge_on_per_try_timeout: true}
      retry_policy: {retry_on: reset, per_try_timeout: 1s, retry_host_predicate: []}
      routes:
      - {match: {prefix: /}, route: {cluster: c}}
      - {match: {prefix: /x}, route: {cluster: c, hedge_policy: {hedge_on_per_try_timeout: false}}}
    """
    assert codes("envoy", inherited) == ["no_5xx"]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        ("{retry_budget: {budget_percent: {value: 5.0}, min_retry_concurrency: 1}}", []),
        ("{retry_budget: {budget_percent: {value: 5.0}, min_retry_concurrency: 0}}", ["budget_too_small"]),
        ("{retry_budget: {budget_percent: {value: 0}, min_retry_concurrency: 0}}", ["budget_too_small"]),
        ("{retry_budget: {budget_percent: {value: 5.0}}}", ["floor_decides"]),
        ("{retry_budget: {budget_percent: {value: 150}}}", ["bad_percent"]),
        ("{retry_budget: {budget_percent: 5}}", ["bad_percent"]),
        ("{max_retries: 3, retry_budget: {budget_percent: {value: 5.0}, min_retry_concurrency: 1}}", ["overridden"]),
        ("{max_retries: 3}, {max_retries: 9}", ["second_threshold"]),
        ("{max_retries: 3}, {priority: HIGH, max_retries: 9}", []),
    ],
)
def test_envoy_clusters(threshold: str, expected: list[str]) -> None:
    cluster = f"cluster: {{circuit_breakers: {{thresholds: [{threshold}]}}}}\n"
    assert codes("envoy", ENVOY + cluster) == expected


def test_envoy_without_any_budget_or_hedge() -> None:
    assert codes("envoy", ENVOY + "cluster: {load_assignment: {}}\n") == ["no_budget"]
    assert codes("envoy", "cluster: {load_assignment: {}}\n") == ["no_hedging"]


def test_envoy_internal_callers_can_switch_hedging_on() -> None:
    manager = "use_remote_address: true\ninternal_address_config: {cidr_ranges: []}\n"
    assert codes("envoy", ENVOY + manager) == ["internal_headers"]


def grpc(policy: Any, **entry: Any) -> str:
    name = entry.pop("name", [{"service": "a.B"}])
    top = entry.pop("top", {})
    return json.dumps({"methodConfig": [{"name": name, "hedgingPolicy": policy, **entry}], **top})


GOOD = {"maxAttempts": 2, "hedgingDelay": "1.850s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
RETRY = {"maxAttempts": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (grpc(GOOD, timeout="20.000000000s"), []),
        (grpc(GOOD, timeout="20s"), []),
        (grpc(GOOD, timeout="20.5s"), ["nine_decimals"]),
        (grpc(GOOD, timeout="20500ms"), ["bad_duration"]),
        (grpc(GOOD, timeout="1.850000000s"), ["never_hedges"]),
        (grpc({**GOOD, "maxAttempts": 1}), ["bad_attempts"]),
        (grpc({**GOOD, "maxAttempts": "2"}), ["bad_attempts"]),
        (grpc({"hedgingDelay": "1s"}), ["bad_attempts"]),
        (grpc({**GOOD, "maxAttempts": 9}), ["clamped"]),
        (grpc({"maxAttempts": 2}), ["no_delay"]),
        (grpc({**GOOD, "hedgingDelay": "1850ms"}), ["bad_duration"]),
        (grpc({**GOOD, "hedgingDelay": 1.85}), ["bad_duration"]),
        (grpc({**GOOD, "hedgingDelay": "1.8500000001s"}), ["bad_duration"]),
        (grpc({**GOOD, "hedgingDelay": "0s"}), ["at_once"]),
        (grpc({**GOOD, "nonFatalStatusCodes": ["unavailable"]}), ["bad_code"]),
        (grpc({**GOOD, "nonFatalStatusCodes": ["TIMEOUT"]}), ["bad_code"]),
        (grpc({**GOOD, "nonFatalStatusCodes": [14]}), []),
        (grpc({**GOOD, "nonFatalStatusCodes": "UNAVAILABLE"}), ["codes_ignored"]),
        (grpc({**GOOD, "hedgingBudget": 5}), ["unknown_key"]),
        (grpc(GOOD, retryPolicy=RETRY), ["two_policies"]),
        (grpc(GOOD, name=[{"method": "x"}]), ["method_alone"]),
        (grpc(GOOD, name=[{"service": "a.B"}, {"service": "a.B"}]), ["twice"]),
        (grpc(GOOD, name=[{}]), []),
        (grpc(GOOD, top={"retryThrottling": {"maxTokens": 1001, "tokenRatio": 0.1}}), ["bad_tokens"]),
        (grpc(GOOD, top={"retryThrottling": {"maxTokens": 100, "tokenRatio": 0}}), ["bad_ratio"]),
        (grpc(GOOD, top={"retryThrottling": {"maxTokens": 100, "tokenRatio": 0.05678}}), ["three_decimals"]),
        (json.dumps({"methodConfig": [{"name": [{}]}]}), ["no_hedging"]),
        (json.dumps({}), ["no_methods"]),
    ],
)
def test_grpc(text: str, expected: list[str]) -> None:
    assert codes("grpc", text) == expected


def polly(
    hedging: dict[str, Any], total: str = "00:00:20", attempt: str = "00:00:12", sampling: str = "00:00:30"
) -> str:
    section = {
        "TotalRequestTimeout": {"Timeout": total},
        "Hedging": hedging,
        "Endpoint": {"Timeout": {"Timeout": attempt}, "CircuitBreaker": {"SamplingDuration": sampling}},
    }
    return json.dumps({"HttpClients": {"Llm": {"Hedging": section}}})


DELAYED = {"MaxHedgedAttempts": 1, "Delay": "00:00:01.850"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (polly(DELAYED), []),
        (polly(DELAYED, attempt="00:00:21", sampling="00:01:00"), ["attempt_above_total"]),
        (polly(DELAYED, sampling="00:00:23"), ["sampling_short"]),
        (polly({**DELAYED, "MaxHedgedAttempts": 11}), ["bad_attempts"]),
        (polly({**DELAYED, "MaxHedgedAttempts": 0}), ["bad_attempts"]),
        (polly({**DELAYED, "Delay": "1850ms"}), ["bad_timespan"]),
        (polly({**DELAYED, "Delay": "24:00:00"}), ["bad_timespan"]),
        (polly({**DELAYED, "Delay": "2"}), ["days", "copies_above_total"]),
        (polly({"MaxHedgedAttempts": 5, "Delay": "00:00:05"}), ["copies_above_total"]),
        (polly({**DELAYED, "Delay": "00:00:13"}), ["never_hedges"]),
        (polly({**DELAYED, "Delay": "00:00:00"}), ["at_once"]),
        (polly({**DELAYED, "Delay": "-00:00:00.001"}), ["no_hedging"]),
        (json.dumps({"Logging": {}}), ["no_hedging"]),
        (json.dumps({"Hedging": {"MaxHedgedAttempts": 1}}), []),  # the handler's own defaults are consistent
    ],
)
def test_polly(text: str, expected: list[str]) -> None:
    assert codes("polly", text) == expected


PATCH = """
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
spec:
  configPatches:
  - applyTo: HTTP_ROUTE
    patch: {operation: MERGE, value: {route: %s}}
"""
ROUTE = "{retry_policy: {retry_on: 5xx, per_try_timeout: 1s, retry_host_predicate: []}, hedge_policy: %s}"
HEDGED = "{hedge_on_per_try_timeout: true}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PATCH % (ROUTE % HEDGED), []),
        (PATCH % (ROUTE % "{initial_requests: 2}"), ["not_implemented"]),
        (PATCH % "{hedge_policy: {hedge_on_per_try_timeout: true}}", ["no_retry_policy"]),
        (PATCH % "{timeout: 3s}", ["no_hedging"]),
        (
            "kind: VirtualService\nspec: {http: [{retries: {attempts: 2, perTryTimeout: 2s}}]}",
            ["cancel_and_retry", "no_hedging"],
        ),
        (
            PATCH % (ROUTE % HEDGED)
            + "  - applyTo: CLUSTER\n    patch: {operation: MERGE, value: {circuit_breakers: {thresholds: [{max_retries: 1}]}}}\n",
            ["second_threshold"],
        ),
    ],
)
def test_istio(text: str, expected: list[str]) -> None:
    assert codes("istio", text) == expected


CLIENT = {
    "enabled": True,
    "expiresAt": "2026-12-06T00:00:00Z",
    "hedgeAfterMs": 1850,
    "hedgeAfterSeconds": 1.85,
    "maxAttempts": 2,
    "perAttemptTimeoutMs": 12000,
    "totalTimeoutMs": 20000,
    "budgetPercent": 5,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"enabled": None}, []),
        ({"hedgeAfterSeconds": 1850}, ["units_disagree"]),
        ({"hedgeAfterMs": 21000, "hedgeAfterSeconds": 21.0}, ["never_hedges", "no_time_left"]),
        ({"hedgeAfterMs": 12000, "hedgeAfterSeconds": 12.0}, ["never_hedges"]),
        ({"perAttemptTimeoutMs": 20000}, ["attempt_not_shorter"]),
        ({"maxAttempts": 12}, ["no_time_left"]),
        ({"allowedSegments": []}, ["nobody"]),
        ({"hedgeAfterMs": None, "hedgeAfterSeconds": None}, ["no_delay"]),
        ({"budgetPercent": ...}, ["no_budget"]),
        ({"expiresAt": ...}, ["missing"]),
        ({"scopes": [{"enabled": True, "hedgeAfterMs": 5, "totalTimeoutMs": 5, "budgetPercent": 1}]}, ["never_hedges"]),
    ],
)
def test_client(changes: dict[str, Any], expected: list[str]) -> None:
    found = {key: value for key, value in {**CLIENT, **changes}.items() if value is not ...}
    assert codes("client", json.dumps(found)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HEDGE_ENABLED=true\nHEDGE_X='a b'\n", []),
        ("# nothing\n", ["no_kill_switch"]),
        ("HEDGE_ENABLED=true\nHEDGE_X=a b\n", ["unquoted"]),
        ("HEDGE_ENABLED=true\nHEDGE_X=mon;rm\n", ["unquoted"]),
        ("HEDGE_ENABLED=true\nHEDGE_X=$HOME\n", ["expanded"]),
        ('HEDGE_ENABLED=true\nHEDGE_X="`id`"\n', ["expanded"]),
        ("HEDGE_ENABLED=true\nHEDGE_X='$HOME'\n", []),
    ],
)
def test_env(text: str, expected: list[str]) -> None:
    assert codes("env", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[policies]]\nenabled = true\n", []),
        ("[[policies]]\n", ["no_kill_switch"]),
        ("a = 1\n", ["no_policies"]),
    ],
)
def test_toml(text: str, expected: list[str]) -> None:
    assert codes("toml", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("groups: [{name: g, rules: [{alert: A, expr: hedge > 1, for: 5m}]}]", []),
        ("groups: [{name: g, rules: [{alert: A, expr: hedge > 1}]}]", ["no_for"]),
        ("groups: []", ["no_hedges"]),
    ],
)
def test_prometheus(text: str, expected: list[str]) -> None:
    assert codes("prometheus", text) == expected
