"""A log in which copies were sent already: checked as it was sent, answered as it would have been without them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import recommend_logs
from true_worlds import Truth, World, run_world

from hedgectl import decompose, replay, store
from hedgectl.config import Config, Value
from hedgectl.fit.cut import finished
from hedgectl.fit.timeline import attempts_of, earliest_starts
from hedgectl.model import CENSORED, ERROR, OK, Workload
from hedgectl.recommend import Options, recommend
from hedgectl.sim import scenario, sweep
from hedgectl.sim.as_sent import as_sent
from hedgectl.sim.as_sent import note as as_sent_note
from hedgectl.sim.scenario import Spec


@cache
def truth() -> Truth:
    return run_world(World("spells", replicas=4, spell=6.0, rho=0.45), n=6000, seed=3)


@cache
def hedged() -> tuple[Workload, dict[str, Any]]:
    """More than 5 % of the requests raced: a fault in what a loser counts as would show."""
    return truth().hedged_log(Spec("first_token", float(np.quantile(truth().log.ttft_s, 0.92)), ratio=None))


def database(**changes: Any) -> Any:
    sends, columns = hedged()
    con = store.connect(None).con
    recommend_logs.add(con, sends, **(columns | changes))
    return con


def settings(**more: Any) -> Config:
    return Config({f"engine.{k}": Value(v, "test") for k, v in (truth().engine() | more).items()})


def test_the_check_replays_the_copies_that_were_sent_and_the_arm_none() -> None:
    con = database()
    doc = replay.simulate_document(con, decompose.prepare(con), settings(cancel="frees_engine"), loads=[1.0])
    check = doc["replay_check"]
    assert check["passed"]
    for metric in ("ttft_ms", "e2e_ms"):
        for p in ("p50", "p95"):
            assert abs(check[metric][p]["error_ratio"]) < 0.05
    arm, true = doc["loads"][0]["unhedged"], truth().play(None)
    assert arm["logical_requests"] == len(truth().log)
    # the first token's p99 lies where one spell more or less moves it by seconds
    for metric, ps in (("ttft", (0.5, 0.95)), ("e2e", (0.5, 0.95, 0.99))):
        for p in ps:
            wanted = true.quantile(metric, p)
            assert wanted is not None
            assert abs(arm[f"{metric}_ms"][f"p{p * 100:g}"] / 1e3 / wanted - 1) < 0.08


def test_prompts_of_losers_that_left_are_no_slowness_of_the_engine() -> None:
    """Each copy sent on the first token leaves a loser without one; what it cost the others is known from them."""
    con = database()
    decompose.prepare(con)
    found = replay.ground(con, settings(cancel="frees_engine")).setting
    assert found is not None
    slow, true = found.service.slow, truth().setting.service.slow
    assert len(slow.start_s) == len(true.start_s)
    assert found.service.hiccup_probability < 0.002
    for name in ("prefill_base_s", "prefill_per_token_s", "decode_base_s", "decode_per_sequence_s"):
        assert abs(getattr(found.service, name) / getattr(truth().setting.service, name) - 1) < 0.01
    assert np.allclose(slow.start_s, true.start_s, atol=2.0)
    assert np.allclose(slow.factor, true.factor, rtol=0.25)


def test_a_prompt_that_had_begun_is_computed_to_its_end() -> None:
    # the first leaves at 1.0 while its prompt (2 s) is computed, the second at 1.5 while it waits, the third waits
    a = attempts_of(
        np.array([0.0, 0.2, 0.4]),
        np.array([np.nan, np.nan, 3.2]),
        np.array([1.0, 1.3, 9.0]),
        np.full(3, 10.0),
        np.full(3, 10.0),
        np.array([np.nan, np.nan, 50.0]),
        np.zeros(3, dtype=np.int64),
        1,
        left=np.array([True, True, False]),
    )
    assert a.cut.tolist() == [True, True, False]
    found = finished(a, np.array([2.0, 2.0, 1.0]), None, None)
    by_arrival = np.argsort(found.arrival)
    # both prompts from 0 to 3.6 are 3 s of work at full speed: 1.2 times slower
    assert found.first[by_arrival] == pytest.approx([2.4, 1.5, 3.6])
    assert earliest_starts(found, None, None)[by_arrival] == pytest.approx([0.0, 1.5, 2.4])


def test_losers_taken_for_whole_answers_would_be_seen() -> None:
    """The same log with its losers as answers of the length they had reached: the law is wrong, or the check fails."""
    sends, columns = hedged()
    cut = np.asarray(columns["status"]) == "censored"
    wrong = replace(sends, completion_tokens=np.where(cut, 400, sends.completion_tokens))
    con = store.connect(None).con
    recommend_logs.add(con, wrong, **(columns | {"status": "ok"}))
    found = replay.simulate_document(con, decompose.prepare(con), settings(cancel="frees_engine"), loads=[1.0])
    arm, true = found["loads"][0]["unhedged"], truth().play(None).quantile("ttft", 0.99)
    assert true is not None
    assert abs(arm["ttft_ms"]["p99"] / 1e3 / true - 1) > 0.05 or not found["replay_check"]["passed"]


def test_recommend_speaks_of_the_service_without_its_copies() -> None:
    con = database()
    doc = recommend(con, decompose.prepare(con), Options(config=settings(), cancel="frees_engine", copy_length="same"))
    assert doc["method"]["estimator"] == "simulation"
    assert doc["method"]["replay_check"]["passed"]
    assert "already_hedged" in [n["code"] for n in doc["notes"]]
    before = doc["policies"][0]["projection"]["unhedged"]["e2e_ms"]["p99"] / 1e3
    wanted = truth().play(None).quantile("e2e", 0.99)
    assert wanted is not None
    assert abs(before / wanted - 1) < 0.08


def test_losers_that_ran_on_unseen_are_a_reason_not_to_replay() -> None:
    delay_s = float(np.quantile(truth().log.ttft_s, 0.92))
    sends, columns = truth().hedged_log(Spec("first_token", delay_s, ratio=None), "engine_runs_on")
    con = store.connect(None).con
    recommend_logs.add(con, sends, **columns)
    prepared = decompose.prepare(con)
    doc = recommend(con, prepared, Options(config=settings(), cancel="engine_runs_on", copy_length="same"))
    assert doc["method"]["estimator"] == "matched"
    assert not doc["method"]["replay_check"]["passed"]
    assert any("ran on" in n["text"] for n in doc["notes"] if n["code"] == "replay_check_failed")


@pytest.mark.parametrize(("cancel", "hedges", "said"), [("unknown", 3, 1), ("unknown", 0, 0), ("frees_engine", 3, 0)])
def test_what_a_cancel_did_to_the_copies_of_the_log_is_said_to_be_a_guess(cancel: Any, hedges: int, said: int) -> None:
    fleet = replace(truth().setting.fleet, cancel=cancel)
    assert [n["code"] for n in as_sent_note(fleet, hedges)] == ["losers_taken_as_gone"] * said


def small(cancel: str) -> scenario.Setting:
    attempts = Workload.of(
        [0.0, 0.1, 5.0],
        [100, 100, 100],
        [400, 3, -1],
        status=np.array([OK, CENSORED, ERROR]),
        ttft_s=[0.1, 0.2, np.nan],
        e2e_s=[9.0, 1.0, 0.0],
        replica=[0, 0, 0],
    )
    base = scenario.setting(
        attempts.take([0]),
        truth().setting.service,
        replace(truth().setting.fleet, cancel=cancel),  # type: ignore[arg-type]
        seed=1,
    )
    return as_sent(base, attempts)


def test_a_loser_is_gone_when_it_was_cut_unless_engines_run_on() -> None:
    for cancel, gone in (("frees_engine", True), ("unknown", True), ("engine_runs_on", False)):
        s = small(cancel)
        arm = sweep.play(s, sweep.load.at(s.workload, 1.0, 1), None, sweep.Assumed(), "as_logged")
        assert arm.answered[0]
        assert bool(arm.answered[1]) is not gone
        if gone:
            assert abs(float(arm.e2e_s[1]) - 1.0) < 1e-9
            assert float(arm.kv_token_s["wasted"]) > 0  # it held its place until then
