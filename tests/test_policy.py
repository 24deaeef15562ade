"""The policy document: reading, complaints, identity, schema, and agreement of schema and reader."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_documents import document, entry, full, hedging

from hedgectl import policy, schemas
from hedgectl.errors import UsageError

VALIDATOR = jsonschema.Draft202012Validator(schemas.load("policy"))


def edit(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets ``a.0.b`` of a document; ``DELETE`` removes it."""

    def apply(found: Any) -> None:
        *parents, last = path.split(".")
        for part in parents:
            found = found[int(part)] if part.isdigit() else found[part]
        if value is DELETE:
            del found[last]
        else:
            found[last] = value

    return apply


DELETE = object()
HEDGE = "policies.0.hedge"


def test_a_full_policy_survives_reading_and_writing() -> None:
    read = policy.parse(full())
    again = policy.parse(json.loads(json.dumps(read.to_document())))
    assert dataclasses.replace(again, stated_id=None) == dataclasses.replace(read, stated_id=None)
    assert again.to_document() == read.to_document()
    VALIDATOR.validate(read.to_document())
    assert read.to_document()["policies"][0]["hedge"] == full()["policies"][0]["hedge"]


def test_the_smallest_policies_are_read_with_the_defaults_of_the_design() -> None:
    small = {
        "schema": "hedgectl/policy.v1",
        "as_of": "2026-11-29T04:15:00Z",
        "policies": [{"decision": "hedge", "hedge": {"trigger": "response", "delay_ms": 500}}],
    }
    VALIDATOR.validate(small)
    hedge = policy.parse(small).policies[0].hedge
    assert hedge is not None
    assert hedge.budget == policy.Budget(0.05, 100, None)
    assert (hedge.max_attempts, hedge.commit, hedge.deadline) == (2, "response", None)
    small["policies"][0]["hedge"]["budget"] = None  # type: ignore[index]
    unlimited = policy.parse(small).policies[0].hedge
    assert unlimited is not None
    assert unlimited.budget is None


def test_the_identity_is_the_hash_that_the_documentation_states() -> None:
    read = policy.parse(full())
    written = read.to_document()
    kept = ("scope", "decision", "hedge", "eligible", "windows_utc", "suppress_when", "experiment")
    content = {
        "goal": written["goal"],
        "policies": [{key: each[key] for key in kept} for each in written["policies"]],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert read.policy_id() == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_the_identity_ignores_evidence_and_spelling_of_numbers() -> None:
    one, two = full(), full()
    two["policies"][0]["hedge"]["delay_ms"] = 1840
    two["policies"][0]["projection"] = None
    two["policies"][0]["reasons"] = []
    two["as_of"] = "2026-11-30T04:15:00Z"
    assert policy.parse(one).policy_id() == policy.parse(two).policy_id()
    two["policies"][0]["hedge"]["delay_ms"] = 1841
    assert policy.parse(one).policy_id() != policy.parse(two).policy_id()


def test_numbers_built_in_code_and_numbers_read_are_the_same_policy() -> None:
    built = document(hedging(delay_ms=300, budget=policy.Budget(1, 100)))
    assert policy.parse(json.loads(json.dumps(built.to_document()))).policy_id() == built.policy_id()


def test_an_edited_file_is_noticed() -> None:
    written = policy.parse(full()).to_document()
    assert not policy.parse(written).edited
    written["policies"][0]["hedge"]["delay_ms"] = 500.0
    assert policy.parse(written).edited
    del written["policy_id"]
    assert not policy.parse(written).edited


# what is wrong, where the complaint must point, a word it must contain; all are refused by the schema too
BAD: list[tuple[str, Any, str, str]] = [
    ("schema", "hedgectl/policy.v9", "schema", "policy.v9"),
    ("policies", [], "policies", "empty"),
    ("policies", {}, "policies", "list"),
    ("polices", [], "polices", "policies"),
    ("as_of", DELETE, "as_of", "missing"),
    ("as_of", "yesterday", "as_of", "UTC"),
    ("as_of", "2026-11-29T04:15:00+02:00", "as_of", "UTC"),
    ("ttl", "7", "ttl", "7d"),
    ("ttl", "0d", "ttl", "duration"),
    ("goal.metric", "p99", "goal.metric", "e2e_p99_ms"),
    ("goal.below_ms", 0, "goal.below_ms", "more than 0"),
    ("goal.min_gain_ratio", 1.5, "goal.min_gain_ratio", "at most 1"),
    ("policies.0.decision", "hegde", "policies[0].decision", "did you mean hedge"),
    ("policies.0.decision", DELETE, "policies[0].decision", "missing"),
    ("policies.0.hedge", None, "policies[0].hedge", "without a hedge"),
    ("policies.0.confidence", "sure", "policies[0].confidence", "high"),
    ("policies.0.scope.mode", "chat", "policies[0].scope.mode", "did you mean model"),
    ("policies.0.scope.model", 3, "policies[0].scope.model", "text"),
    (f"{HEDGE}.trigger", "first_byte", "policies[0].hedge.trigger", "first_token"),
    (f"{HEDGE}.trigger", DELETE, "policies[0].hedge.trigger", "missing"),
    (f"{HEDGE}.delay_ms", 0, "policies[0].hedge.delay_ms", "more than 0"),
    (f"{HEDGE}.delay_ms", "1840ms", "policies[0].hedge.delay_ms", "number"),
    (f"{HEDGE}.delay_ms", True, "policies[0].hedge.delay_ms", "number"),
    (f"{HEDGE}.delays.response.ms", DELETE, "policies[0].hedge.delays.response.ms", "missing"),
    (f"{HEDGE}.delays.first_byte", None, "policies[0].hedge.delays.first_byte", "not known"),
    (f"{HEDGE}.delay_rule.of", "ttft", "policies[0].hedge.delay_rule.of", "ttft_ms"),
    (f"{HEDGE}.max_attempts", 1, "policies[0].hedge.max_attempts", "at least 2"),
    (f"{HEDGE}.max_attempts", 6, "policies[0].hedge.max_attempts", "at most 5"),
    (f"{HEDGE}.max_attempts", 2.5, "policies[0].hedge.max_attempts", "whole"),
    (f"{HEDGE}.budget.ratio", 0, "policies[0].hedge.budget.ratio", "more than 0"),
    (f"{HEDGE}.budget.ratio", 5, "policies[0].hedge.budget.ratio", "at most 1"),
    (f"{HEDGE}.budget.burst", 0, "policies[0].hedge.budget.burst", "at least 1"),
    (f"{HEDGE}.budget.percent", 5, "policies[0].hedge.budget.percent", "not known"),
    (f"{HEDGE}.deadline.total_ms", DELETE, "policies[0].hedge.deadline.total_ms", "missing"),
    (f"{HEDGE}.target.choose", "fastest", "policies[0].hedge.target.choose", "least_outstanding"),
    (f"{HEDGE}.target.different_replica", "yes", "policies[0].hedge.target.different_replica", "true or false"),
    (f"{HEDGE}.cancel.assumed", "frees", "policies[0].hedge.cancel.assumed", "frees_engine"),
    (f"{HEDGE}.commit", "headers", "policies[0].hedge.commit", "response_headers"),
    ("policies.0.eligible.0.field", "stream", "policies[0].eligible[0].field", "streamed"),
    ("policies.0.eligible.0.op", "<", "policies[0].eligible[0].op", "does not fit"),
    ("policies.0.eligible.0.value", "false", "policies[0].eligible[0].value", "true or false"),
    ("policies.0.eligible.2.value", True, "policies[0].eligible[2].value", "number"),
    ("policies.0.eligible.3.value", "pro", "policies[0].eligible[3].value", "list"),
    ("policies.0.eligible.3.value", [1], "policies[0].eligible[3].value", "list of texts"),
    ("policies.0.windows_utc.0.days", [0], "policies[0].windows_utc[0].days", "Monday"),
    ("policies.0.windows_utc.0.days", [], "policies[0].windows_utc[0].days", "days"),
    ("policies.0.windows_utc.0.days", [1, 1], "policies[0].windows_utc[0].days", "different"),
    ("policies.0.windows_utc.0.to", "24:00", "policies[0].windows_utc[0].to", "00:00"),
    ("policies.0.windows_utc.0.from", "9:00", "policies[0].windows_utc[0].from", "HH:MM"),
    ("policies.0.suppress_when.0.signal", "errors", "policies[0].suppress_when[0].signal", "error_ratio"),
    ("policies.0.suppress_when.0.op", "=", "policies[0].suppress_when[0].op", "not known"),
    ("policies.0.suppress_when.0.value", -1, "policies[0].suppress_when[0].value", "at least 0"),
    ("policies.0.experiment.kind", "holdout", "policies[0].experiment.kind", "switchback"),
    ("policies.0.experiment.block", "half an hour", "policies[0].experiment.block", "30m"),
    ("policies.0.experiment.seed", -1, "policies[0].experiment.seed", "at least 0"),
    ("policies.0.projection", [], "policies[0].projection", "object"),
    ("notes", ["text"], "notes[0]", "object"),
]


@pytest.mark.parametrize(
    ("path", "value", "where", "word"),
    BAD,
    ids=[f"{b[0]}={'gone' if b[1] is DELETE else repr(b[1])}"[:60] for b in BAD],
)
def test_a_wrong_key_is_named_by_reader_and_schema(path: str, value: Any, where: str, word: str) -> None:
    wrong = full()
    edit(path, value)(wrong)
    with pytest.raises(UsageError) as caught:
        policy.parse(wrong)
    assert caught.value.where == where
    assert word in f"{caught.value.what} {caught.value.hint}"
    assert not VALIDATOR.is_valid(wrong)


# rules between keys, which no schema can state
BETWEEN: list[tuple[str, Any, str]] = [
    (f"{HEDGE}.deadline.attempt_ms", 20000.0, "policies[0].hedge.deadline.attempt_ms"),
    (f"{HEDGE}.delay_ms", 20000.0, "policies[0].hedge.delay_ms"),
    (f"{HEDGE}.delay_rule.floor_ms", 4000.0, "policies[0].hedge.delay_rule.floor_ms"),
    ("policies.0.windows_utc.0.to", "22:00", "policies[0].windows_utc[0].to"),
    ("policies.1.scope.model", "chat", "policies[1].scope"),
    ("as_of", "2026-02-30T00:00:00Z", "as_of"),
    (f"{HEDGE}.delay_ms", float("nan"), "policies[0].hedge.delay_ms"),
    ("policies.0.scope.model", "half a \ud800 pair", "policies[0].scope.model"),
]


@pytest.mark.parametrize(("path", "value", "where"), BETWEEN, ids=[b[2] for b in BETWEEN])
def test_rules_between_keys(path: str, value: Any, where: str) -> None:
    wrong = full()
    edit(path, value)(wrong)
    with pytest.raises(UsageError) as caught:
        policy.parse(wrong)
    assert caught.value.where == where


@pytest.mark.parametrize("value", [None, [], "policy", 3, {}, {"schema": "hedgectl/diff.v1"}, {"schema": 3}])
def test_what_is_no_policy_at_all_is_a_usage_error(value: Any) -> None:
    with pytest.raises(UsageError):
        policy.parse(value)
    assert not VALIDATOR.is_valid(value)


def _paths(value: Any, at: str = "") -> list[str]:
    if isinstance(value, dict):
        items = [
            (key, item) for key, item in value.items() if key not in ("window", "coverage", "method", "projection")
        ]
    elif isinstance(value, list):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        items = []
    return [found for key, item in items for found in [f"{at}{key}", *_paths(item, f"{at}{key}.")]]


@given(
    path=st.sampled_from([path for path in _paths(full()) if not path.rsplit(".", 1)[-1].isdigit()]),
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 30),
        st.floats(-2, 30, allow_nan=False),
        st.sampled_from(["", "x", "hedge", "=", "in", "13:00", "1h", [], {}, [1], ["a"], {"ms": 3}]),
    ),
)
def test_reader_and_schema_agree(path: str, value: Any) -> None:
    """Whatever one key is changed to: the schema accepts at least what the reader does, and more only between keys."""
    changed = full()
    edit(path, copy.deepcopy(value))(changed)
    complaint = None
    try:
        policy.parse(changed)
    except UsageError as error:
        complaint = error.what
    between = ("not below", "decided twice", "is above", "equals from", "not a time in UTC")
    if complaint is None or not any(word in complaint for word in between):
        assert VALIDATOR.is_valid(changed) is (complaint is None), complaint


def test_windows_past_midnight_become_two_days() -> None:
    window = policy.Window((5, 7), "22:00", "02:00")
    assert window.within_days() == (
        policy.Window((5, 7), "22:00", "24:00"),
        policy.Window((1, 6), "00:00", "02:00"),
    )
    assert policy.Window((1,), "13:00", "00:00").within_days() == (policy.Window((1,), "13:00", "24:00"),)
    assert policy.Window((1,), "13:00", "15:00").within_days() == (policy.Window((1,), "13:00", "15:00"),)


@pytest.mark.parametrize(
    ("text", "expected"), [("30m", 1800), ("7d", 604800), ("2w", 1209600), ("90s", 90), ("5h", 18000)]
)
def test_durations(text: str, expected: int) -> None:
    assert policy.seconds(text) == expected


def test_one_entry_is_read_alone() -> None:
    assert policy.parse_scope(entry()) == policy.parse(full()).policies[0]
