"""Logs of agent harnesses, of load tools that do not read streams, LiteLLM's spans and Ray's text: the traps of each.

trap                                                                   test
LiteLLM's attributes stand on three kinds of span, or on none          test_litellm_spans_of_one_request_are_one_row
a server span that said 200 and whose caller had left                  test_litellm_callers_who_left_and_answers_that_broke
the time of an OpenHands call is only in the action it led to          test_openhands_calls_end_at_their_action
OpenHands' tool_call_id repeats                                        test_openhands_calls_end_at_their_action
tau2 without a generation time; a generation time of 0                 test_tau2_times
Inspect: framework waits, caches, providers whose input leaves the     test_inspect_calls
cache out
a failed request's 0 is no time; a timeout is a lower bound            test_load_tools_keep_no_time_of_a_failure
a k6 request is nine points                                            test_k6_points_of_one_request_are_one_row
two encodings of vegeta                                                test_vegeta_is_the_same_in_both_encodings
Ray Serve's text log: a hung-up stream is 200, messages over lines     test_ray_serve_text
the proxy's line does not name the replica                             test_ray_serve_text_names_the_replica_that_stands_...
"""

from __future__ import annotations

from pathlib import Path

from format_rows import Row, attempts, read_text, rows, samples
from ingest_logs import read

from hedgectl import analysis
from hedgectl.decompose import Selection


def sample(name: str) -> list[Row]:
    """Rows of the only sample of a format."""
    (path,) = samples(name)
    return rows(name, read_text(path))


def calls(name: str) -> list[Row]:
    return [r for r in sample(name) if r.get("kind", "attempt") == "attempt"]


def test_litellm_spans_of_one_request_are_one_row() -> None:
    found = {str(r["attempt_id"])[:4]: r for r in calls("litellm_otel")}
    assert len(found) == 10
    for told in ("0101", "0201"):  # on the server's span, on the endpoint's
        assert (found[told]["replica"], found[told]["prompt_tokens"], found[told]["streamed"]) == (
            "engine-a",
            812,
            True,
        )
    assert found["0201"]["e2e_ns"] == 1_500_000_000  # the server's span, not the endpoint's of 300 ms
    assert (found["0301"]["completion_tokens"], found["0301"]["streamed"]) == (
        21,
        False,
    )  # from the engine's call alone
    assert "model" not in found["0401"]  # nothing told: unknown, not guessed
    assert (found["0901"]["e2e_ns"], found["0901"]["request_id"]) == (
        800_000_000,
        "8a000000-0009-4000-8000-000000000009",
    )


def test_litellm_callers_who_left_and_answers_that_broke() -> None:
    found = {str(r["attempt_id"])[:4]: (r["status"], r.get("error_kind")) for r in calls("litellm_otel")}
    assert found["0401"] == found["0501"] == ("censored", "client_gone")
    assert found["0601"] == ("error", "upstream")
    assert found["0701"] == ("error", "rate_limited")
    assert found["0801"] == ("censored", "timeout")


def test_openhands_calls_end_at_their_action() -> None:
    listed = sample("openhands")
    found = {r["request_id"]: r for r in listed if r["kind"] == "attempt"}
    assert found["gen-2"]["arrival_ns"] + found["gen-2"]["e2e_ns"] == 1793696406_200_000_000
    assert "arrival_ns" not in found["gen-5"]
    assert [r["e2e_ns"] for r in listed if r["kind"] == "tool"] == [600_000_000, 60_000_000_000, 100_000_000]


def test_tau2_times() -> None:
    listed = calls("tau2")
    # the gap before the answer, its own time, the gap again where that time is 0
    assert [r["e2e_ns"] for r in listed] == [4_750_000_000, 3_500_000_000, 2_500_000_000]
    assert [r["tool_names"] for r in sample("tau2") if r["kind"] == "tool"] == ["get_booking", "get_user"]


def test_inspect_calls() -> None:
    found = {r["attempt_id"]: r for r in calls("inspect_eval")}
    assert found["m1"]["e2e_ns"] == 1_300_000_000
    assert (found["m2"]["prompt_tokens"], found["m2"]["cached_tokens"]) == (1000, 900)
    assert found["m3"]["cache_hit"] is True
    assert (found["m4"]["status"], "e2e_ns" in found["m4"]) == ("error", False)
    assert (found["m5"]["status"], found["m5"]["e2e_ns"]) == ("censored", 60_000_000_000)
    assert (found["m6"]["status"], "e2e_ns" in found["m6"]) == ("censored", False)


def test_load_tools_keep_no_time_of_a_failure() -> None:
    for name in ("vegeta_json", "vegeta_csv", "k6_json"):
        listed = calls(name)
        assert [r for r in listed if r["status"] == "error" and "e2e_ns" in r] == []
        assert max(r["e2e_ns"] for r in listed if r["status"] == "censored") >= 30_000_000_000


def test_k6_points_of_one_request_are_one_row() -> None:
    listed = calls("k6_json")
    assert [r.get("headers_ns") for r in listed] == [84_120_000, 91_200_000, 3_210_000, None, None]
    (path,) = samples("k6_json")
    lines = read_text(path).splitlines()
    # the same instant and tags twice: which waiting belongs to which is unknown
    twice = attempts("k6_json", lines + [line for line in lines if "1204.117" in line or '"value": 84.12,' in line])
    assert [r.get("headers_ns") for r in twice if r.get("e2e_ns") == 1_204_117_000] == [None, None]


def test_vegeta_is_the_same_in_both_encodings() -> None:
    assert calls("vegeta_json") == calls("vegeta_csv")


def test_ray_serve_text_names_the_replica_that_stands_in_the_same_log_or_in_its_own(tmp_path: Path) -> None:
    (console,) = [r for r in calls("ray_serve_text") if r["request_id"] == "a-8"]
    assert (console["replica"], console["pool"], console["route"]) == ("k2x9q0ab", "llm_Tiny", "/v1")
    got = read(*samples("ray_serve_text"), *samples("ray_serve_text_replica"), db=tmp_path / "h.duckdb", join=True)
    (told,) = got["joined"]
    assert (told["outer_format"], told["joined"], told["inner_unmatched"]) == ("ray_serve_text", 5, 0)
    with analysis.opened(analysis.Logs(db=tmp_path / "h.duckdb"), Selection()) as found:
        seen = found.con.execute(
            "SELECT request_id, replica FROM selected_attempt WHERE replica IS NOT NULL ORDER BY ALL"
        ).fetchall()
    assert [request for request, _ in seen] == ["a-1", "a-2", "a-4", "a-5", "a-7", "a-8"]
    assert {replica for _, replica in seen} == {"k2x9q0ab"}


def test_ray_serve_text() -> None:
    found = {r["request_id"]: (r["status"], r.get("error_kind")) for r in calls("ray_serve_text")}
    assert found == {
        "a-1": ("ok", None), "a-2": ("ok", None), "a-3": ("censored", "client_gone"), "a-4": ("censored", "client_gone"),
        "a-5": ("error", "upstream"), "a-7": ("censored", "timeout"), "a-8": ("ok", None),
    }  # fmt: skip
    (path,) = samples("ray_serve_text")
    local, utc = (attempts("ray_serve_text", read_text(path), tz=tz)[0]["arrival_ns"] for tz in ("Asia/Tokyo", None))
    assert utc - local == 9 * 3600 * 10**9
