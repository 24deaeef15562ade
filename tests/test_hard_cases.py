"""Logs that make a careless tool lie: what a whole command answers, from the first line to the exit code.

Cases with a test beside the code they concern are not repeated here: cut lines, duplicates, retries, losers, clocks, units, zones,
overlapping tools and cached tokens stand in test_ingest, test_formats_* and test_decompose; the verdicts in
test_diagnose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import row, run, write

from hedgectl import decompose, store, workload
from hedgectl.policy import Rule
from hedgectl.recommend import eligibility

__all__ = ["run"]  # a fixture


def test_answers_from_a_cache_are_no_latencies_and_never_hedged(run: Any, tmp_path: Path) -> None:
    rows = [row(i, cache_hit=hit, e2e_ms=5, ttft_ms=3) for i, hit in enumerate([True, "True", 1, "hit"])]
    log = write(tmp_path, *rows)
    code, out, _ = run("breakdown", log, "-o", "json")
    group = json.loads(out)["groups"][0]
    assert (code, group["excluded"]["cache_hit"], group["e2e_ms"]["n"]) == (0, 4, 0)
    code, out, _ = run("recommend", log, "--min-requests", "1", "-o", "json")
    (policy,) = json.loads(out)["policies"]
    assert (code, policy["decision"], policy["reasons"][0]["value"]) == (3, "not_enough_data", 0)


def test_answers_from_a_cache_do_not_make_the_service_look_fast(run: Any, tmp_path: Path) -> None:
    """The split, the policy's "as is" and what is counted all leave them out: one rule."""
    served = [row(i, replica=f"e{i % 2}") for i in range(40)]
    hits = [row(40 + i, cache_hit=True, e2e_ms=5, ttft_ms=3, replica=None) for i in range(60)]
    log = write(tmp_path, *served, *hits)
    _, out, _ = run("breakdown", log, "-o", "json")
    split = json.loads(out)["groups"][0]["e2e_ms"]
    _, out, _ = run("recommend", log, "--min-requests", "10", "-o", "json")
    document = json.loads(out)
    arm = document["policies"][0]["projection"]["unhedged"]
    assert (arm["logical_requests"], arm["e2e_ms"]["n"]) == (40, 40)
    assert arm["e2e_ms"]["p50"] == pytest.approx(split["p50"], abs=0.01)
    assert [n["text"][:2] for n in document["notes"] if n["code"] == "cache_hits_left_out"] == ["60"]


def test_the_window_is_told_by_the_times_and_not_by_the_lines(run: Any, tmp_path: Path) -> None:
    old = row(7, ts="2026-02-20T08:00:00Z", e2e_ms=60_000)
    log = write(tmp_path, row(30), row(10), row(50), old, row(20))
    code, out, err = run("breakdown", log, "--window", "7d", "--as-of", "2026-03-02T08:00:50Z", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["groups"][0]["requests"] == 4


def test_timeouts_are_lower_bounds_and_an_incident(run: Any, tmp_path: Path) -> None:
    rows = [row(i) for i in range(6)] + [row(i, status=504, ttft_ms=None, e2e_ms=20_000) for i in range(6, 9)]
    code, out, _ = run("recommend", write(tmp_path, *rows), "--min-requests", "5", "-o", "json")
    policy = json.loads(out)["policies"][0]
    assert (code, policy["decision"]) == (0, "do_not_hedge")
    assert "incident" in json.dumps(policy["reasons"])


@pytest.mark.parametrize(
    ("given_ms", "outlived"), [(20_000, False), (1_000, True)], ids=["longer than any answer", "answers outlive it"]
)
def test_every_command_has_one_rule_for_timeouts(run: Any, tmp_path: Path, given_ms: int, outlived: bool) -> None:
    """A timeout is a lower bound, unless at least as many answers took longer than it gave them: then it is an error."""
    rows = [row(i, replica=f"e{i % 2}", e2e_ms=900 + 10 * i) for i in range(300)]
    cut = [row(300 + i, replica=f"e{i % 2}", status=504, ttft_ms=None, e2e_ms=given_ms) for i in range(6)]
    log = write(tmp_path, *rows, *cut)
    _, out, _ = run("breakdown", log, "-o", "json")
    split = json.loads(out)
    group = split["groups"][0]
    assert group["excluded"] == {"cache_hit": 0, "error": 6 * outlived, "censored": 6 * (not outlived)}
    _, out, _ = run("recommend", log, "--min-requests", "100", "-o", "json")
    document = json.loads(out)
    arm = document["policies"][0]["projection"]["unhedged"]
    for one in (group["e2e_ms"], arm["e2e_ms"]):
        assert (one["p99"] is None) == (not outlived)
    assert arm["e2e_ms"]["at_least"].keys() == group["e2e_ms"]["at_least"].keys()
    assert arm["error_ratio"] == pytest.approx(6 / 306 * outlived, abs=1e-6)
    for one in (split, document):
        assert ("timeouts_outlived" in {n["code"] for n in one["notes"]}) == outlived


def test_hang_ups_stay_lower_bounds_however_short(run: Any, tmp_path: Path) -> None:
    rows = [row(i, e2e_ms=900 + 10 * i) for i in range(300)]
    gone = [row(300 + i, status=499, ttft_ms=None, e2e_ms=1_000) for i in range(6)]
    _, out, _ = run("breakdown", write(tmp_path, *rows, *gone), "-o", "json")
    assert json.loads(out)["groups"][0]["excluded"]["censored"] == 6


def test_a_copy_elsewhere_is_a_second_replica(run: Any, tmp_path: Path) -> None:
    """All first attempts on one replica, their copies on another: nobody says that there is only one."""
    rows = []
    for i in range(20):
        rows.append(row(i, replica="e1", hedge_role="primary", attempt_id=f"p{i}"))
        if i % 4 == 0:
            rows.append(
                row(
                    i, replica="e2", hedge_role="hedge", attempt_id=f"c{i}", status="cancelled", ttft_ms=None, e2e_ms=40
                )
            )
    _, out, _ = run("recommend", write(tmp_path, *rows), "--min-requests", "5", "-o", "json")
    assert "one_replica" not in {r["code"] for r in json.loads(out)["policies"][0]["reasons"]}


def test_tools_said_as_a_flag_or_a_number_are_no_names(run: Any, tmp_path: Path) -> None:
    said = [True, False, "true", 0, 2, "search,mail", [], ["search"], None]
    log = write(tmp_path, *(row(i, tools=tools) for i, tools in enumerate(said)))
    run("ingest", log, "--db", "d.duckdb")
    _, out, _ = run(
        "sql", "SELECT tools_offered, tool_names FROM attempt ORDER BY line", "--db", "d.duckdb", "-o", "jsonl"
    )
    found = [tuple(json.loads(line).values()) for line in out.splitlines()]
    none = [(True, None), (False, None), (True, None), (False, None), (True, None)]
    assert found == [*none, (True, "mail,search"), (False, None), (True, "search"), (None, None)]


def test_a_first_token_of_another_clock_carries_no_delay(run: Any, tmp_path: Path) -> None:
    """Found by the log itself: one replica's first tokens stand before their start, so nobody's can be trusted."""
    (tmp_path / "m.toml").write_text(
        '[fields]\nts = "sent"\nfirst_token = "engine_first"\nend = "done"\nrequest_id = "id"\nreplica = "on"\nstreamed = "s"\n'
    )
    (tmp_path / "trust.toml").write_text("[recommend]\none_clock = true\n")

    def moment(ms: int) -> str:
        return f"2026-03-02T08:{ms // 60_000:02d}:{ms // 1000 % 60:02d}.{ms % 1000:03d}Z"

    rows = []
    for i in range(40):
        start, behind = 5_000 + 1_000 * i, 450 if i % 4 == 0 else 0
        times = {"sent": moment(start), "engine_first": moment(start + 200 - behind), "done": moment(start + 900)}
        rows.append(json.dumps({**times, "id": f"c{i}", "on": "late" if behind else "good", "s": True}))
    log = write(tmp_path, *rows)
    _, out, _ = run("breakdown", log, "--map", "m.toml", "-o", "json")
    document = json.loads(out)
    group = document["groups"][0]
    assert (group["e2e_ms"]["n"], group["ttft_ms"]["n"]) == (40, 30)  # unknown, neither 0 nor 250
    (told,) = [n["text"] for n in document["notes"] if n["code"] == "clock_skew"]
    assert "late at least 250 ms" in told
    assert "cross-clock" in told
    asked = ("recommend", log, "--map", "m.toml", "--min-requests", "10", "-o", "json")
    _, out, _ = run(*asked)
    document = json.loads(out)
    assert "ttft_withheld" in {n["code"] for n in document["notes"]}
    delays = ((document["policies"][0].get("hedge") or {}).get("delays")) or {}
    assert delays.get("first_token") is None
    _, out, _ = run(*asked, "--config", "trust.toml")
    document = json.loads(out)
    assert "ttft_withheld" not in {n["code"] for n in document["notes"]}
    assert document["policies"][0]["hedge"]["trigger"] == "first_token"


def test_a_bare_number_needs_the_users_word_for_its_unit(run: Any, tmp_path: Path) -> None:
    head = "ts,request_id,replica,status,ttft,e2e"
    cells = ["0.25,1.2", "250ms,1.2s", '"250,0","1,200.0"', "0:00:00.250,1m2s", "-,", "250000us,1200000µs"]
    log = write(tmp_path, head, *(f"2026-03-02T08:00:0{i}Z,u{i},e1,200,{x}" for i, x in enumerate(cells)), name="u.csv")
    query = "SELECT request_id, ttft_ns // 1000000 AS ttft, e2e_ns // 1000000 AS e2e FROM attempt ORDER BY 1"
    for unit, number, refused in (((), 4, ["no_unit", "bad_duration"]), (("--unit", "s"), 5, ["bad_duration"])):
        db = f"{number}.duckdb"
        _, out, _ = run("ingest", log, *unit, "--db", db, "-o", "json")
        document = json.loads(out)
        assert [r["reason"] for r in document["files"][0]["rejects"]] == refused
        assert [n["code"] for n in document["notes"]] == ["rejected"], "what was rejected is not doubted once more"
        _, out, _ = run("sql", query, "--db", db, "-o", "jsonl")
        found = [tuple(json.loads(line).values()) for line in out.splitlines()]
        assert len(found) == number
        assert found[-4:] == [("u1", 250, 1200), ("u3", 250, 62_000), ("u4", None, None), ("u5", 250, 1200)]
    assert found[0] == ("u0", 250, 1200)
    assert run("breakdown", log, "--unit", "parsec")[0] == 2


def test_tools_that_overlap_are_waited_for_once(run: Any, tmp_path: Path) -> None:
    """An agent's own record: the calls are the requests, the wait is the union of the tools less that of the calls."""
    spans = [
        {"kind": "llm", "name": "plan", "start_ms": 0, "end_ms": 1000, "queue_ms": 100, "ttft_ms": 400},
        {"kind": "tool", "name": "a", "start_ms": 1000, "end_ms": 5000},
        {"kind": "tool", "name": "b", "start_ms": 2000, "end_ms": 6000},
        {"kind": "tool", "name": "c", "start_ms": 5500, "end_ms": 7000},
        {"kind": "llm", "name": "say", "start_ms": 6500, "end_ms": 9000, "queue_ms": 200, "ttft_ms": 700},
    ]
    turn = {
        "request_id": "g",
        "status": 200,
        "start": "2026-03-02T08:00:00Z",
        "end": "2026-03-02T08:00:10Z",
        "spans": spans,
    }
    (tmp_path / "turn.json").write_text(json.dumps(turn, indent=1))
    run("ingest", "turn.json", "--db", "d.duckdb")
    _, out, _ = run("breakdown", "--db", "d.duckdb", "-o", "json")
    document = json.loads(out)
    group = document["groups"][0]
    mean = {name: part["mean"] for name, part in group["components"].items()}
    assert (group["requests"], mean["queue"], mean["prefill"], mean["decode"]) == (2, 150.0, 400.0, 1200.0)
    (told,) = [n["text"] for n in document["notes"] if n["code"] == "agent_turns"]
    assert "at most 3.5 s can be saved" in told
    _, out, _ = run("sql", "turns", "--db", "d.duckdb", "-o", "jsonl")
    found = json.loads(out)
    assert (found["wall_ms"], found["model_ms"], found["tool_wait_ms"], found["other_ms"]) == (
        10_000,
        3_500,
        5_500,
        1_000,
    )
    assert found["tool_sum_ms"] == 9_500


def test_a_copy_that_a_rate_limit_refuses_never_wins_and_is_told_from_the_calls_it_costs(
    run: Any, tmp_path: Path
) -> None:
    refused = {"status": 429, "ttft_ms": None, "e2e_ms": 12}
    log = write(
        tmp_path,
        row(0, request_id="slow", ttft_ms=900, e2e_ms=1900),
        row(1, request_id="slow", hedge_role="hedge", replica="e2", **refused),
        row(4, request_id="next", replica="e2", **refused),
        row(59, request_id="fine"),
        row(119, request_id="later", **refused),  # a minute and more after: another matter
    )
    doc = json.loads(run("breakdown", log, "-o", "json")[1])
    (said,) = [note for note in doc["notes"] if note["code"] == "quota_after_copy"]
    assert "refused 1 copies, and 1 ordinary calls" in said["text"]
    shown = run("sql", "SELECT ttft_ns, hedge_won FROM request WHERE request_id = 'slow'", log, "-o", "csv")[1]
    assert shown.splitlines()[1] == "900000000,False"
    rule = {r["rule"]: r["offenders"] for r in json.loads(run("check", log, "-o", "json")[1])["rules"]}
    assert rule["quota_after_copy"] == 1


def test_each_kind_of_call_that_must_not_run_twice_is_kept_out(run: Any, tmp_path: Path) -> None:
    # what other rows log and a row does not is unknown there, and unknown is not eligible
    whole = {"tools": [], "store": False, "n": 1, "prompt_tokens": 4000, "cached_tokens": 0}
    kinds: dict[str, dict[str, Any]] = {
        "plain": whole,
        "reads": whole | {"tools": ["look_up"]},
        "pays": whole | {"tools": ["pay"]},
        "provider": whole | {"tools": None, "server_side_tools": ["run_code"]},
        "stored": whole | {"store": True},
        "choices": whole | {"n": 4},
        "warm": whole | {"cached_tokens": 3900},
        "silent": {name: value for name, value in whole.items() if name != "tools"},
    }
    log = write(tmp_path, *(row(i, request_id=name, **more) for i, (name, more) in enumerate(kinds.items())))
    db = tmp_path / "h.duckdb"
    assert run("ingest", log, "--db", str(db), "-q")[0] == 0
    with store.connect(db) as opened:
        decompose.prepare(opened.con, decompose.Selection())
        found = workload.load(opened.con).requests
    rules = eligibility.default_rules(found, "first_token")
    allowed = [name for name, may in zip(kinds, eligibility.mask(found, rules), strict=True) if may]
    assert allowed == ["plain"], "no field at all is not the same as no tools"
    by_name = [Rule("tool_names", "in", ("look_up",), "reads only") if r.field == "tools_offered" else r for r in rules]
    allowed = [name for name, may in zip(kinds, eligibility.mask(found, by_name), strict=True) if may]
    assert allowed == ["plain", "reads"]


def test_what_a_row_leaves_out_has_its_documented_default_if_it_names_its_parameters(run: Any, tmp_path: Path) -> None:
    """Left out of a request, n is 1 and store is false; tools are not, and a row that names no parameter says nothing."""
    kinds: dict[str, dict[str, Any]] = {
        "none asked": {"tools": []},
        "stored": {"tools": [], "store": True},
        "four": {"tools": [], "n": 4},
        "one": {"tools": [], "n": 1},
        "untold": {"n": 1},
        "silent": {},
        "warm": {"tools": [], "prompt_tokens": 5000, "cached_tokens": 4900},
        "cool": {"tools": [], "prompt_tokens": 5000, "cached_tokens": 4000},
    }
    log = write(tmp_path, *(row(i, request_id=name, **more) for i, (name, more) in enumerate(kinds.items())))
    assert run("ingest", log, "--db", "d.duckdb", "-q")[0] == 0
    asked = "SELECT request_id, n_choices, stored_state FROM attempt ORDER BY line"
    _, out, _ = run("sql", asked, "--db", "d.duckdb", "-o", "csv")
    assert out.splitlines()[1:] == [
        "none asked,1,False", "stored,1,True", "four,4,False", "one,1,False", "untold,1,False", "silent,,", "warm,1,False",
        "cool,1,False",
    ]  # fmt: skip
    with store.connect(tmp_path / "d.duckdb") as opened:
        decompose.prepare(opened.con, decompose.Selection())
        found = workload.load(opened.con).requests
    rules = eligibility.default_rules(found, "first_token")
    allowed = [name for name, may in zip(kinds, eligibility.mask(found, rules), strict=True) if may]
    assert allowed == ["none asked", "one", "cool"]
    unknown = {n["text"].split(" do not log ")[1].split(":")[0] for n in eligibility.notes(found, rules)[1:]}
    assert unknown == {"tools_offered", "stored_state", "n_choices"}


def test_an_answer_whose_time_is_missing_did_not_fail(run: Any, tmp_path: Path) -> None:
    rows = [row(i, replica=f"e{i % 2}") for i in range(12)] + [row(20 + i, e2e_ms=None, ttft_ms=None) for i in range(6)]
    _, out, _ = run("recommend", write(tmp_path, *rows), "--min-requests", "10", "-o", "json")
    assert "incident" not in {r["code"] for r in json.loads(out)["policies"][0]["reasons"]}


def test_no_figure_is_named_that_no_request_reaches(run: Any, tmp_path: Path) -> None:
    """p99 needs 100 requests to be one of them; the change of it can be told, a duration cannot."""
    rows = [
        row(5 * i, replica=f"e{i % 3}", ttft_ms=150 + 3000 * (i % 20 == 3), e2e_ms=1150 + 3000 * (i % 20 == 3))
        for i in range(40)
    ]
    log = write(tmp_path, *rows)
    _, out, _ = run("recommend", log, "--min-requests", "20", "--goal", "e2e_p99 < 2s", "-o", "json")
    (policy,) = json.loads(out)["policies"]
    said = [r["text"] for r in policy["reasons"] if "e2e p99" in r["text"]]
    assert said
    for text in said:
        assert "e2e p99 (beyond what 40 requests can show)" in text
        assert "would become" not in text
    assert policy["projection"]["unhedged"]["e2e_ms"]["p99"] is None


def test_what_the_window_leaves_out_is_counted_however_far_away(run: Any, tmp_path: Path) -> None:
    far = [row(i, ts=f"2026-01-0{1 + i}T00:00:00Z", request_id=f"far{i}") for i in range(5)]
    log = write(tmp_path, *far, *(row(i) for i in range(4)))
    _, out, _ = run("breakdown", log, "--window", "1d", "-o", "json")
    document = json.loads(out)
    (told,) = [n["text"] for n in document["notes"] if n["code"] == "outside_selection"]
    assert (document["window"]["requests"], told) == (4, "5 of 9 requests lie outside of what was asked for")
    _, out, err = run("stats", write(tmp_path, row(0), "{cut", name="cut.jsonl"), "-o", "json")
    assert "1 of 2 lines were rejected" in err
