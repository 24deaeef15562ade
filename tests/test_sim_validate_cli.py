"""`python -m hedgectl.sim.validate` and the bench's rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hedgectl.benchcases import simulate
from hedgectl.sim.validate import main

LINDLEY = {
    "name": "gg1_fcfs_lindley_vector",
    "params": {"arrival": [0.0, 1.0, 1.5], "service": [2, 1.5, 0.5], "servers": 1},
    "expected": [0.0, 1.0, 2.0],
    "rel_tol": 1e-12,
    "tol_kind": "absolute",
}


def case_file(tmp_path: Path, *cases: dict[str, object]) -> str:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    return str(path)


def test_all_that_ran_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([case_file(tmp_path, LINDLEY, {"name": "who_knows", "params": {}, "expected": 1})]) == 0
    out = capsys.readouterr().out
    assert "ok       gg1_fcfs_lindley_vector" in out
    assert "not run  who_knows" in out
    assert out.endswith("1 passed, 0 failed, 1 not run\n")


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    assert main([case_file(tmp_path, {**LINDLEY, "expected": [0.0, 1.0, 3.0]})]) == 1
    assert main([case_file(tmp_path, {**LINDLEY, "expected": [0.0]})]) == 1


@pytest.mark.parametrize("text", ["{", '{"name": "x"}', "[1]"])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text)
    assert main([str(path)]) == 2
    assert main([str(tmp_path / "nothing.json")]) == 2


def test_the_compared_queues_walk_the_same_path() -> None:
    rng = np.random.default_rng(4)
    arrival, service = np.cumsum(rng.exponential(0.15, 3000)), rng.exponential(1.0, 3000)
    played = simulate.engine_queue(arrival, service)[1]
    for loop in (simulate.heapq_loop, simulate.merged_loop):
        np.testing.assert_allclose(loop(arrival, service, 8), played, rtol=0, atol=1e-6)
    by_simpy = simulate.simpy_times(arrival, service, 8)
    assert by_simpy is not None
    np.testing.assert_allclose(by_simpy[1], played[1], rtol=0, atol=1e-6)
