"""Plain sentences, the argument, and what a difference means."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from policy_documents import document, full, hedging

from hedgectl import policy, schemas


def test_the_sentence_says_everything_that_is_done() -> None:
    text = policy.sentence(policy.parse(full()).policies[0])
    for part in (
        "chat: when the answer has not come after 1.84 s, send one copy to another replica that is healthy",
        "for at most 5 % of requests (bursts of 100, 8 in flight)",
        "one deadline of 20 s, no attempt longer than 12 s",
        "tools_offered is false",
        "segment is one of pro, team",
        "22:00 to 02:00 UTC",
        "never while error_ratio > 0.1",
        "blocks of 30m",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (
            {"decision": "do_not_hedge", "reasons": ({"text": "The tail is shared."},)},
            "do not send copies: The tail is shared.",
        ),
        ({"decision": "not_enough_data"}, "no decision, the log does not hold enough."),
        ({"budget": None}, "without a cap on copies"),
        ({"max_attempts": 3}, "2 at most"),
        ({"trigger": "first_token"}, "no first token has come after 300 ms"),
        (
            {"target": policy.Target(different_pool=True, choose="random")},
            "another pool that is healthy chosen at random",
        ),
    ],
)
def test_sentences(changes: dict[str, Any], part: str) -> None:
    assert part in policy.sentence(hedging(**changes))


def test_explain_is_valid_and_carries_the_argument() -> None:
    explained = policy.explain(policy.parse(full()))
    jsonschema.validate(explained, schemas.load("explain"))
    topics = [row["topic"] for row in explained["scopes"][0]["argument"]]
    assert topics[0] == "why"
    assert {"effect", "price", "assumed", "holds up to", "left out", "hours", "no copies while", "instead"} <= set(
        topics
    )
    effect = [row["text"] for row in explained["scopes"][0]["argument"] if row["topic"] == "effect"]
    assert "whole answer: p50 900 ms to 900 ms, p95 1.8 s to 1.7 s, p99 9 s to 5.3 s" in effect
    assert "p99 times 0.59 (between 0.53 and 0.67, from 96 tail episodes)" in effect


@pytest.mark.parametrize(
    "projection", [None, {}, {"unhedged": None}, {"p99_change": {"ratio": 0.8, "interval": None}}, {"cost": 3}]
)
def test_explain_survives_what_a_projection_leaves_out(projection: Any) -> None:
    found = full()
    found["policies"][0]["projection"] = projection
    jsonschema.validate(policy.explain(policy.parse(found)), schemas.load("explain"))


def changed(path: str, value: Any) -> dict[str, Any]:
    new = full()
    *parents, last = path.split(".")
    found: Any = new
    for part in parents:
        found = found[int(part)] if part.isdigit() else found[part]
    found[last] = value
    result = policy.diff(policy.parse(full()), policy.parse(new))
    jsonschema.validate(result, schemas.load("diff"))
    return result


def test_no_difference() -> None:
    result = policy.diff(policy.parse(full()), policy.parse(full()))
    assert (result["rows"], result["matters"]) == ([], False)


@pytest.mark.parametrize(
    ("path", "value", "field", "matters"),
    [
        ("policies.0.hedge.delay_ms", 1900.0, "chat: hedge.delay_ms", False),  # 3 %: what a day does
        ("policies.0.hedge.delay_ms", 2500.0, "chat: hedge.delay_ms", True),
        ("policies.0.decision", "do_not_hedge", "chat: decision", True),
        ("policies.1.decision", "not_enough_data", "embed: decision", False),  # no copies either way
        ("policies.0.confidence", "low", "chat: confidence", False),
        ("policies.0.hedge.budget.ratio", 0.02, "chat: hedge.budget.ratio", True),
        ("policies.0.hedge.trigger", "first_token", "chat: hedge.trigger", True),
        ("policies.0.hedge.cancel.assumed", "unknown", "chat: hedge.cancel.assumed", False),
        ("policies.0.hedge.delays.response.n", 5, "chat: hedge.delays.response.n", False),
        ("policies.0.hedge.deadline.total_ms", 20500.0, "chat: hedge.deadline.total_ms", False),
        ("policies.0.hedge.deadline.total_ms", 40000.0, "chat: hedge.deadline.total_ms", True),
        ("policies.0.eligible.1.value", True, "chat: eligible.tools_offered =", True),
        ("policies.0.eligible.0.keeps_ratio", 0.8, "chat: eligible.streamed = keeps_ratio", False),
        ("policies.0.windows_utc.0.days", [1], "chat: windows_utc.22:00-02:00", True),
        ("policies.0.suppress_when.0.value", 0.2, "chat: suppress_when.error_ratio >", True),
        ("policies.0.experiment.seed", 2, "chat: experiment.seed", False),
        ("policies.0.projection.p99_change.ratio", 0.6, "chat: projection.p99_change.ratio", False),
        ("policies.0.projection.cost.delta_ratio", 0.2, "chat: projection.cost.delta_ratio", True),
        ("goal.below_ms", 6000.0, "goal.below_ms", True),
    ],
)
def test_what_a_difference_means(path: str, value: Any, field: str, matters: bool) -> None:
    result = changed(path, value)
    row = next(row for row in result["rows"] if row["field"] == field)
    assert row["matters"] is matters, row["why"]
    assert row["new"] == value


def test_ratios_matter_when_their_intervals_do_not_meet() -> None:
    result = changed("policies.0.projection.p99_change", {"ratio": 0.9, "interval": [0.8, 0.99]})
    assert [row["matters"] for row in result["rows"] if "p99_change" in row["field"]] == [True]


def test_nothing_in_the_hedge_matters_while_hedging_is_off() -> None:
    off = [document(hedging(decision="do_not_hedge", delay_ms=delay)) for delay in (300.0, 900.0)]
    assert policy.diff(*off)["matters"] is False


def test_scopes_that_come_and_go() -> None:
    one, two = document(hedging()), document(hedging(scope=policy.Scope("chat")))
    rows = policy.diff(one, two)["rows"]
    assert [(row["field"], row["old"], row["new"], row["matters"]) for row in rows] == [
        ("all requests: decision", "hedge", None, True),
        ("chat: decision", None, "hedge", True),
    ]
