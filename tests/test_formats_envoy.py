"""Known pitfalls of Envoy's access log in JSON, one test each.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
  RESPONSE_DURATION stops at early headers                                      -> test_envoy_first_token_with_early_headers
  whole answers have no first token                                             -> test_envoy_whole_answer
  without a content type a stream is not known                                  -> test_envoy_default_keys
  pool wait is queue time                                                       -> test_envoy_queue
  text formats: every value a string, '-' for null; omitted keys; tcp://        -> test_envoy_spellings_agree
  200 with URX or UO is good; DC, UT, UC are not                                -> test_envoy_flags
  code 0                                                                        -> test_envoy_flags
  hedged rows do not say so; the winner's own latency                           -> test_envoy_hedged_rows
  retries are one after another, only the last attempt has times                -> test_envoy_retry
  three attempts, none good                                                     -> test_envoy_exhausted
  negative COMMON_DURATION                                                      -> test_envoy_negative_points
  hosts attempted names one host at most: not used                              -> test_envoy_hosts_attempted_is_not_used
  rows that are no generation                                                   -> test_envoy_other_traffic
  upstream log rows are another format                                          -> test_envoy_upstream_log_is_not_taken_for_this
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import MS, T_NS, Row, rows
from make_format_samples import envoy_row

from hedgectl.formats import detect
from hedgectl.formats.catalogue import get


def envoy(*listed: dict[str, Any]) -> list[Row]:
    return rows("envoy_json", [json.dumps(r) for r in listed])


def test_envoy_first_token_with_early_headers() -> None:
    late, early = envoy(envoy_row(1, 0), envoy_row(2, 0, response_duration=5, cd_to_us_rx_beg=5100))
    assert (late["ttft_ns"], late["ttft_basis"], late["headers_ns"]) == (150_500_000, "first_token", 150_300_000)
    assert (early["ttft_ns"], early["headers_ns"], early["decode_ns"], early["decode_basis"]) == (
        150_500_000,
        5_100_000,
        749 * MS,
        "measured",
    )
    (blind,) = envoy(envoy_row(3, 0, cd_to_us_rx_body_beg=None, cd_us_rx_body_beg_to_end=None, cd_to_us_rx_beg=None))
    assert (blind["ttft_ns"], blind["ttft_basis"], blind["note"], "decode_ns" in blind) == (
        150 * MS,
        "first_byte",
        "first_byte_only",
        False,
    )


def test_envoy_whole_answer() -> None:
    (row,) = envoy(envoy_row(1, 0, content_type="application/json; charset=utf-8"))
    assert (row["streamed"], "ttft_ns" in row, "decode_ns" in row, row["headers_ns"]) == (
        False,
        False,
        False,
        150_300_000,
    )


def test_envoy_default_keys() -> None:
    row = {"start_time": "2026-02-02T02:40:00.000Z", "method": "POST", "response_code": 200, "response_flags": "-", "duration": 900,
           "x-envoy-upstream-service-time": "149", "x-request-id": "r", "upstream_host": "tcp://10.0.0.1:8000", "upstream_cluster": "llm"}  # fmt: skip
    (found,) = envoy(row)
    assert (found["arrival_ns"], found["e2e_ns"], found["headers_ns"], found["replica"], found["request_id"]) == (
        T_NS,
        900 * MS,
        149 * MS,
        "10.0.0.1:8000",
        "r",
    )
    assert not {"streamed", "ttft_ns", "queue_ns"} & found.keys()


def test_envoy_queue() -> None:
    (row,) = envoy(envoy_row(1, 0, pool_ready_duration=300, cd_to_us_tx_beg=300900, cd_total=1200000))
    assert (row["queue_ns"], row["queue_basis"], row["arrival_ns"] % 10**9) == (300 * MS, "measured", 0)


def test_envoy_spellings_agree() -> None:
    typed = envoy_row(1, 0)
    text = {k: "-" if v is None else str(v) for k, v in typed.items()}
    short = {k: v for k, v in typed.items() if v is not None}
    old = {**typed, "upstream_host": "tcp://10.0.0.1:8000"}
    renamed = {
        ("upstream_" + k if k == "pool_ready_duration" else "upstream_request_" + k if k == "attempt_count" else k): v
        for k, v in typed.items()
    }
    wanted = envoy(typed)
    for other in (text, short, old, renamed):
        assert envoy(other) == wanted


@pytest.mark.parametrize(
    ("code", "flags", "status", "kind"),
    [
        (200, "-", "ok", None), (200, "URX", "ok", None), (200, "UO", "ok", None), (200, None, "ok", None), (200, "DC", "censored", "client_gone"),
        (0, "DC", "censored", "client_gone"), (0, "-", "censored", "client_gone"), (200, "UT", "censored", "timeout"), (200, "UC", "error", "upstream"),
        (504, "UT", "censored", "timeout"), (408, "DT", "censored", "timeout"), (503, "UF,URX", "error", "upstream"), (503, "UO", "error", "upstream"),
        (429, "RL", "error", "rate_limited"), (429, "-", "error", "rate_limited"), (404, "NR", "error", "client"), (500, "URX", "error", "upstream"),
    ],
)  # fmt: skip
def test_envoy_flags(code: int, flags: str | None, status: str, kind: str | None) -> None:
    (row,) = envoy(envoy_row(1, 0, response_code=code, response_flags=flags))
    assert (row["status"], row.get("error_kind")) == (status, kind)
    assert row.get("http_status") == (code or None)


PRIMARY_WON = {"attempt_count": 2, "response_duration": 610, "cd_to_us_rx_beg": 610200, "cd_to_us_rx_body_beg": 610400, "cd_total": 1360300, "duration": 1360,
               "upstream_wire_bytes_received": 0}  # fmt: skip
COPY_WON = {"attempt_count": 2, "upstream_host": "10.0.0.2:8000", "cd_to_us_tx_beg": 612000, "cd_to_us_rx_beg": 720200, "cd_to_us_rx_body_beg": 720400,
            "cd_total": 1470300, "duration": 1470}  # fmt: skip


def test_envoy_hedged_rows() -> None:
    found = envoy(envoy_row(1, 0, **PRIMARY_WON), envoy_row(2, 5000, **COPY_WON))
    kept = {r["cause"]: r for r in found if r["line"] == 1}
    assert (kept["primary"]["status"], kept["primary"]["e2e_ns"], kept["primary"]["won"]) == ("ok", 1_360_300_000, True)
    # the copy's own times are not in the row, and are not made up
    assert (
        kept["hedge"]["status"],
        kept["hedge"]["error_kind"],
        "e2e_ns" in kept["hedge"],
        "replica" in kept["hedge"],
    ) == ("censored", "loser", False, False)
    moved = {r["cause"]: r for r in found if r["line"] == 2}
    assert (moved["hedge"]["replica"], moved["hedge"]["ttft_ns"], moved["hedge"]["headers_ns"]) == (
        "10.0.0.2:8000",
        108_400_000,
        108_200_000,
    )
    assert moved["hedge"]["arrival_ns"] - moved["primary"]["arrival_ns"] == 612 * MS
    assert moved["hedge"]["arrival_ns"] + moved["hedge"]["e2e_ns"] == moved["primary"]["arrival_ns"] + 1_470_300_000
    # cancelled when the copy's headers came: at least that long
    assert (moved["primary"]["status"], moved["primary"]["e2e_ns"], moved["primary"]["note"]) == (
        "censored",
        720_200_000,
        "hedge_inferred",
    )


def test_envoy_retry() -> None:
    quick = {
        **COPY_WON,
        "cd_to_us_tx_beg": 24500,
        "cd_to_us_rx_beg": 175200,
        "cd_to_us_rx_body_beg": 175400,
        "cd_total": 925300,
    }
    for neighbours in ([], [envoy_row(1, 0, **PRIMARY_WON)]):
        found = [r for r in envoy(*neighbours, envoy_row(2, 5000, **quick)) if r["line"] == 1 + len(neighbours)]
        first, second = sorted(found, key=lambda r: r["attempt_no"])
        assert (first["cause"], first["status"], "e2e_ns" in first, "replica" in first) == (
            "primary",
            "error",
            False,
            False,
        )
        assert (second["cause"], second["status"], second["arrival_ns"] - first["arrival_ns"], second["ttft_ns"]) == (
            "retry",
            "ok",
            24_500_000,
            150_900_000,
        )


def test_envoy_exhausted() -> None:
    nothing = dict.fromkeys(
        (
            "cd_to_us_tx_beg",
            "cd_to_us_rx_beg",
            "cd_to_us_rx_body_beg",
            "response_duration",
            "request_tx_duration",
            "pool_ready_duration",
            "content_type",
        )
    )
    found = envoy(envoy_row(1, 0, response_code=503, response_flags="UF,URX", attempt_count=3, **nothing))
    assert [(r["attempt_no"], r["cause"], r["status"]) for r in sorted(found, key=lambda r: r["attempt_no"])] == [
        (0, "primary", "error"), (1, "retry", "error"), (2, "retry", "error"),
    ]  # fmt: skip
    assert sum("e2e_ns" in r for r in found) == 1
    (never,) = envoy(envoy_row(1, 0, response_code=503, response_flags="UH", attempt_count=0, **nothing))
    assert (never["attempt_no"], never["status"]) == (0, "error")


def test_envoy_negative_points() -> None:
    (row,) = envoy(
        envoy_row(
            1,
            0,
            cd_to_us_rx_body_beg=-5,
            cd_us_rx_body_beg_to_end=-10,
            cd_to_us_rx_beg=-6,
            pool_ready_duration=-1,
            cd_to_us_tx_beg=-3,
        )
    )
    assert not {"ttft_ns", "decode_ns", "headers_ns", "queue_ns"} & row.keys()
    assert row["status"] == "ok"


def test_envoy_hosts_attempted_is_not_used() -> None:
    assert envoy(envoy_row(1, 0, upstream_hosts_attempted="a,b")) == envoy(
        envoy_row(1, 0, upstream_hosts_attempted=None)
    )


def test_envoy_other_traffic() -> None:
    health, empty, bad = envoy(
        envoy_row(1, 0, method="GET", path="/healthz"),
        {"response_flags": "-"},
        envoy_row(1, 0, start_time="?", start_epoch="?"),
    )
    assert [(r["kind"], r["reason"]) for r in (health, empty, bad)] == [
        ("not_request", "not_a_generation"), ("not_request", "no_request_field"), ("reject", "bad_time")
    ]  # fmt: skip


def test_envoy_upstream_log_is_not_taken_for_this() -> None:
    from hedgectl.errors import InputError

    upstream = {**envoy_row(1, 0), "attempt_header": "2", "attempt_count": 0, "request_duration": None}
    with pytest.raises(InputError):
        detect.detect([json.dumps(upstream)], formats={"envoy_json": get("envoy_json")})
