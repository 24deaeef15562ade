"""Every target of the catalogue: one golden each, and what must hold for all of them.

``HEDGECTL_GOLDEN=write pytest tests/test_emit.py`` writes the golden outputs anew; read the difference before you commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from policy_documents import document, full, hedging

from hedgectl import emitters, policy, schemas
from hedgectl.emitters import CANNOT_HEDGE
from hedgectl.errors import InputError, NotEnoughData, UsageError
from hedgectl.recommend.options import TARGET_TRIGGERS

GOLDEN = Path(__file__).parent / "golden" / "emit"
TARGETS = sorted(emitters.catalogue())
HEDGING = [name for name in TARGETS if emitters.target(name).traits.hedges]
CHECKING = [name for name in TARGETS if emitters.target(name).check is not None]
EVERYTHING = policy.parse(full())


@pytest.mark.parametrize("name", TARGETS)
def test_golden(name: str) -> None:
    """The policy that uses every key, word for word: a new target needs one file here and nothing else."""
    path = GOLDEN / f"{name}{emitters.target(name).suffix}"
    text = emitters.emit(EVERYTHING, name).text
    if os.environ.get("HEDGECTL_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"no golden output for {name}: see the top of this file"
    assert text == path.read_text(encoding="utf-8")


def test_no_golden_without_a_target() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_pure_and_its_document_is_valid(name: str) -> None:
    one, two = (emitters.emit(EVERYTHING, name) for _ in range(2))
    assert one == two
    jsonschema.validate(one.to_document(EVERYTHING), schemas.load("emit"))
    assert one.text.endswith("\n")


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_knows_all_its_forms(name: str) -> None:
    for form in emitters.target(name).forms:
        assert emitters.emit(EVERYTHING, name, form=form).text


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_written_passes_the_targets_own_lints(name: str) -> None:
    for policies in ((hedging(),), (hedging(deadline=None),), (hedging(budget=None),), (hedging(max_attempts=5),)):
        found = emitters.emit(document(*policies), name)
        assert [lint for lint in found.lints if lint.level == "error"] == []


@pytest.mark.parametrize("name", CHECKING)
@pytest.mark.parametrize("text", ["\x00", "{", "[]", "3", "- [", "a: b: c", "text"])
def test_what_is_no_file_of_the_target_is_said_so(name: str, text: str) -> None:
    """Never a traceback: either the file cannot be read, or something is missing in it."""
    with contextlib.suppress(InputError):
        assert emitters.check(text, name)


ON = re.compile(r"1840|1\.84|300ms|0\.300|1991|1\.991|1\.990")


@pytest.mark.parametrize("decision", ["do_not_hedge", "not_enough_data"])
@pytest.mark.parametrize("name", TARGETS)
def test_a_decision_not_to_hedge_writes_hedging_off(name: str, decision: str) -> None:
    """Never nothing, and never the delay that was refused."""
    off = document(hedging("first_token", decision=decision, delay_ms=1840.0))  # a clock that some targets lack
    found = emitters.emit(off, name)
    assert found.text.strip()
    assert found.refusal is None
    if name != "json":
        assert not ON.search(found.text), "the refused delay stands in the file"


@pytest.mark.parametrize("name", HEDGING)
def test_a_hedge_on_a_clock_that_the_target_lacks_is_refused(name: str) -> None:
    sees = emitters.target(name).traits.sees
    for trigger in policy.TRIGGERS:
        asked = document(hedging(trigger))
        if trigger in sees:
            assert emitters.emit(asked, name).text
            continue
        with pytest.raises(NotEnoughData) as caught:
            emitters.emit(asked, name)
        known = emitters.target(name).traits.recommend_for
        assert f"hedgectl recommend --for {known}" in str(caught.value.hint)
        assert known in TARGET_TRIGGERS, "the hint must be a command that works"


@pytest.mark.parametrize("name", [name for name in HEDGING if emitters.target(name).traits.whole_answers])
def test_whole_answers_may_be_hedged_on_the_header_clock(name: str) -> None:
    whole = policy.Rule("streamed", "=", False)
    found = emitters.emit(document(hedging("response", eligible=(whole,))), name)
    assert "hedge.trigger" in [loss.field for loss in found.losses]
    with pytest.raises(NotEnoughData):
        emitters.emit(document(hedging("response")), name)


@pytest.mark.parametrize("name", HEDGING)
def test_every_signal_that_is_not_watched_is_a_loss(name: str) -> None:
    watched = emitters.target(name).traits.signals
    for signal in policy.SIGNALS:
        for source in ("default", "replay"):
            suppress = policy.Suppress(signal, ">", 0.5, source=source)
            found = emitters.emit(document(hedging(suppress_when=(suppress,))), name)
            lost = [loss for loss in found.losses if loss.field == f"suppress_when.{signal}"]
            assert len(lost) == (signal not in watched)
            # the stability rule needed it: exit 3 even without --strict
            assert (found.refusal is not None) == (bool(lost) and source == "replay")


def test_prometheus_only_watches_and_refuses_nothing() -> None:
    for trigger in policy.TRIGGERS:
        suppress = policy.Suppress("target_queue_age_ms", ">", 5, source="replay")
        found = emitters.emit(document(hedging(trigger, suppress_when=(suppress,))), "prometheus")
        assert found.refusal is None


@pytest.mark.parametrize("name", HEDGING)
def test_strict_refuses_any_loss(name: str) -> None:
    found = emitters.emit(EVERYTHING, name, strict=True)
    assert (found.refusal is not None) == bool(found.losses)


@pytest.mark.parametrize("name", [name for name in HEDGING if not emitters.target(name).traits.budget])
def test_without_a_budget_the_delay_buys_it(name: str) -> None:
    def delays(at_budget: float | None) -> policy.Delays:
        return policy.Delays(response_headers=policy.Delay(300.0, 1000, 0.9, at_budget))

    def emitted(at_budget: float | None, **changes: Any) -> tuple[str, str]:
        found = emitters.emit(document(hedging(delays=delays(at_budget), **changes)), name)
        return found.text, " ".join(loss.nearest for loss in found.losses if loss.field == "hedge.budget")

    text, note = emitted(777.2)
    assert "0.778" in text or "00.778" in text  # up, never down
    assert "0.300" not in text
    assert "disappears under saturation" in note
    text, note = emitted(250.0)
    assert "0.300" in text
    assert "disappears under saturation" in note
    text, note = emitted(None)
    assert "0.300" in text
    assert "no cap at all" in note
    # the delay prices one copy, so one copy is sent
    found = emitters.emit(document(hedging(delays=delays(777.2), max_attempts=4)), name)
    assert "hedge.max_attempts" in [loss.field for loss in found.losses]
    assert '"maxAttempts": 2' in found.text or '"MaxHedgedAttempts": 1' in found.text
    # and a delay at or beyond the deadline would never send it
    with pytest.raises(NotEnoughData, match="no copy would ever race"):
        emitters.emit(document(hedging(delays=delays(20000.0))), name)


@pytest.mark.parametrize("name", HEDGING)
def test_nothing_is_lost_in_silence(name: str) -> None:
    """For each part of a policy: the text changes with it, or a loss names it."""
    plain = hedging()
    parts: dict[str, policy.ScopePolicy] = {
        "hedge.delay_ms": hedging(delay_ms=400.0),
        "hedge.max_attempts": hedging(max_attempts=3),
        "hedge.budget": hedging(budget=policy.Budget(0.02, 100)),
        "hedge.budget.burst": hedging(budget=policy.Budget(0.05, 1)),
        "hedge.budget.max_concurrent": hedging(budget=policy.Budget(0.05, 100, 4)),
        "hedge.deadline.total_ms": hedging(deadline=policy.Deadline(25000.0, 12000.0)),
        "hedge.deadline.attempt_ms": hedging(deadline=policy.Deadline(20000.0, 9000.0)),
        "hedge.target.different_pool": hedging(target=policy.Target(different_pool=True)),
        "hedge.target.choose": hedging(target=policy.Target(choose="least_outstanding")),
        "eligible.tools_offered": hedging(eligible=(policy.Rule("tools_offered", "=", False),)),
        "eligible.segment": hedging(eligible=(policy.Rule("segment", "in", ("pro",)),)),
        "eligible.route": hedging(eligible=(policy.Rule("route", "not_in", ("/v1/tools",)),)),
        "eligible.prompt_tokens": hedging(eligible=(policy.Rule("prompt_tokens", "<=", 900.0),)),
        "windows_utc": hedging(windows_utc=(policy.Window((1,), "13:00", "15:00"),)),
        "experiment": hedging(experiment=policy.Experiment()),
        "scope.model": hedging(scope=policy.Scope(model="chat")),
        "scope.route": hedging(scope=policy.Scope(route="/v1/chat")),
        "scope.size_class": hedging(scope=policy.Scope(size_class="large")),
    }

    def body(text: str) -> str:
        return re.sub(r"^(#|//).*$|sha256:\w+|[0-9a-f]{12}", "", text, flags=re.M)

    before = emitters.emit(document(plain), name)
    for field, changed in parts.items():
        after = emitters.emit(document(changed), name)
        lost = [loss.field for loss in after.losses if field.startswith(loss.field) or loss.field.startswith(field)]
        assert body(after.text) != body(before.text) or lost, f"{name} loses {field} in silence"


@pytest.mark.parametrize("name", TARGETS)
def test_several_scopes_all_appear(name: str) -> None:
    several = document(
        hedging(scope=policy.Scope("chat", "/pkg.Llm/Chat")),
        hedging(scope=policy.Scope("code", "/pkg.Llm/Code"), delay_ms=700.0),
        hedging(scope=policy.Scope("embed", "/pkg.Llm/Embed"), decision="do_not_hedge"),
    )
    text = emitters.emit(several, name).text
    for part in ("Chat", "Code", "Embed"):
        assert re.search(part, text, re.I)


def test_the_list_names_every_target_and_the_ways_around() -> None:
    listed = emitters.list_document()
    jsonschema.validate(listed, schemas.load("emit_list"))
    assert [each["target"] for each in listed["targets"]] == TARGETS
    names = {name for each in CANNOT_HEDGE for name in each.names}
    assert {"litellm", "portkey", "haproxy", "nginx", "gateway-api", "linkerd", "grpc-python", "grpc-go"} <= names
    assert not names & set(TARGETS)
    assert len(listed["ways_around"]) == 2


@pytest.mark.parametrize("name", sorted(name for each in CANNOT_HEDGE for name in each.names))
def test_what_cannot_hedge_is_answered_with_both_ways_around(name: str) -> None:
    with pytest.raises(UsageError, match="cannot hedge") as caught:
        emitters.target(name)
    assert "--to client" in str(caught.value.hint)
    assert "--to envoy" in str(caught.value.hint)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        emitters.target("envoi")
    assert "did you mean envoy?" in str(caught.value.hint)
    with pytest.raises(UsageError) as caught:
        emitters.emit(EVERYTHING, "envoy", options={"clustre": "x"})
    assert "did you mean cluster?" in str(caught.value.hint)
    with pytest.raises(UsageError):
        emitters.emit(EVERYTHING, "toml", form="full")


@pytest.mark.parametrize("option", ["listen", "admin", "endpoints"])
def test_addresses_are_checked(option: str) -> None:
    with pytest.raises(UsageError, match="ADDRESS:PORT"):
        emitters.emit(document(hedging()), "envoy", options={option: "localhost"}, form="full")


def test_a_document_of_lints_is_valid() -> None:
    lints = emitters.check(json.dumps({"enabled": True, "hedgeAfterMs": 5, "totalTimeoutMs": 3}), "client")
    jsonschema.validate(emitters.check_document("client", lints), schemas.load("emit_check"))
    assert [lint.code for lint in lints] == ["missing", "never_hedges", "no_budget"]


@pytest.mark.parametrize("name", ["envoy", "grpc", "istio", "polly"])
def test_what_has_no_expiry_says_when_to_renew(name: str) -> None:
    lost = [loss.nearest for loss in emitters.emit(document(hedging()), name).losses if loss.field == "ttl"]
    assert lost == ["in force until it is replaced: write it anew before 2026-12-06T04:15:00Z"]


def test_envoy_says_when_the_budget_is_too_small_for_the_concurrency() -> None:
    def nearest(requests: int) -> str:
        projection = {"unhedged": {"logical_requests": requests, "e2e_ms": {"p50": 1000.0}}}
        window = {"from": "2026-11-28T00:00:00Z", "to": "2026-11-28T01:00:00Z"}
        found = emitters.emit(document(hedging(projection=projection), window=window), "envoy")
        return next(loss.nearest for loss in found.losses if loss.field == "hedge.budget.ratio")

    assert "about 5, so this floor decides" in nearest(18_000)  # 5 a second, 1 s each; 5 % needs 20
    assert "floor decides" not in nearest(180_000)


def test_copies_are_counted_as_each_target_counts_them() -> None:
    """gRPC and clients count all attempts, Envoy and Polly only what is added."""
    asked = document(hedging(delays=policy.Delays(response_headers=policy.Delay(300.0, 10, 0.9, 300.0))))
    texts = {name: emitters.emit(asked, name).text for name in ("grpc", "client", "envoy", "polly", "env")}
    assert '"maxAttempts": 2' in texts["grpc"]
    assert '"maxAttempts": 2' in texts["client"]
    assert "HEDGE_MAX_ATTEMPTS=2" in texts["env"]
    assert "num_retries: 1" in texts["envoy"]
    assert '"MaxHedgedAttempts": 1' in texts["polly"]


def test_the_error_limit_and_not_the_budget_becomes_the_token_ratio() -> None:
    def ratio(**changes: Any) -> float:
        config = json.loads(emitters.emit(document(hedging(**changes)), "grpc").text)
        assert config["retryThrottling"]["maxTokens"] <= 1000
        found: float = config["retryThrottling"]["tokenRatio"]
        return found

    assert ratio() == ratio(budget=policy.Budget(0.5, 100)) == 0.111
    assert ratio(suppress_when=(policy.Suppress("error_ratio", ">", 0.05),)) == 0.053
