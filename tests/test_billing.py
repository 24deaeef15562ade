"""The provider's bill: read in its own zone, compared with days before hedging, as a range, never applied."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from hedgectl import billing, schemas
from hedgectl.errors import InputError, UsageError

START = date(2026, 9, 1)


def row(day: date, cost: float, service: str = "Vertex AI", hour: str = "15:00:00", **more: Any) -> dict[str, Any]:
    return {
        "usage_start_time": f"{day.isoformat()} {hour} UTC",
        "cost": cost,
        "currency": "USD",
        "service": {"description": service},
        **more,
    }


def bill(tmp_path: Path, rows: list[dict[str, Any]], **how: Any) -> billing.Bill:
    path = tmp_path / "bill.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return billing.read(path, **how)


def days(n: int) -> list[date]:
    return [START + timedelta(days=k) for k in range(n)]


def test_json_lines_arrays_and_csv_are_the_same_bill(tmp_path: Path) -> None:
    rows = [row(d, 10.0 + k) for k, d in enumerate(days(3))]
    lines = bill(tmp_path, rows)
    array = tmp_path / "bill.json"
    array.write_text(json.dumps(rows))
    table = tmp_path / "bill.csv"
    table.write_text(
        "usage_start_time,cost,currency,service_description\n"
        + "".join(f"{r['usage_start_time']},{r['cost']},USD,Vertex AI\n" for r in rows)
    )
    for path in (array, table):
        other = billing.read(path)
        assert other.days == lines.days
        assert other.cost.tolist() == lines.cost.tolist() == [10.0, 11.0, 12.0]


def test_days_are_the_providers_own(tmp_path: Path) -> None:
    found = bill(tmp_path, [row(START, 1.0, hour="03:00:00"), row(START, 2.0, hour="12:00:00")])
    assert found.days == (START - timedelta(days=1), START)  # 03:00 UTC is the evening before in California
    utc = bill(tmp_path, [row(START, 1.0, hour="03:00:00"), row(START, 2.0, hour="12:00:00")], tz="UTC")
    assert utc.days == (START,)


def test_credits_lower_the_cost_and_rows_without_one_are_counted(tmp_path: Path) -> None:
    rows = [row(START, 10.0, credits=[{"name": "discount", "amount": -2.5}]), row(START, None), {"cost": 3.0}]  # type: ignore[arg-type]
    found = bill(tmp_path, rows)
    assert found.cost.tolist() == [7.5]
    assert (found.rows, found.left_out) == (3, 2)


def test_another_providers_table_is_read_by_mapping(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("Day,Amount,Money,Product\n2026-09-01,4,EUR,llm\n2026-09-01,6,EUR,storage\n")
    names = {"time": "Day", "cost": "Amount", "currency": "Money", "service": "Product"}
    found = billing.read(path, columns=names, services=["LLM"])
    assert (found.cost.tolist(), found.control.tolist(), found.currency) == ([4.0], [6.0], "EUR")


def month(
    growth: float, *, traffic: float = 1.0, other: bool = False, seed: int = 1
) -> tuple[list[dict[str, Any]], dict[date, float], date]:
    """Four weeks before and after: weekly rhythm, noise, traffic that grows too, and hedging's own growth."""
    rng = np.random.default_rng(seed)
    rows, requests = [], {}
    since = START + timedelta(days=28)
    for k, day in enumerate(days(57)):
        after = k > 28
        volume = 1000 * (0.6 if day.isoweekday() > 5 else 1.0) * (traffic if after else 1.0) * rng.uniform(0.95, 1.05)
        requests[day] = volume
        rows.append(row(day, 0.01 * volume * ((1.0 + growth) if after else 1.0) * rng.uniform(0.98, 1.02)))
        if other:
            rows.append(row(day, 0.002 * volume, service="Cloud Run"))
    return rows, requests, since


@pytest.mark.parametrize("other", [False, True])
def test_growth_beyond_the_traffics_own_is_found_with_a_range(tmp_path: Path, other: bool) -> None:
    rows, requests, since = month(0.15, traffic=1.4, other=other)
    read = bill(tmp_path, rows, services=["vertex"])
    found = billing.effect(read, since, None if other else requests)
    assert found["enough"]
    assert found["control"] == ("other_services" if other else "requests")
    low, high = found["interval"]
    assert low < 0.15 < high
    assert found["growth_ratio"] == pytest.approx(0.15, abs=0.02)
    assert high - low < 0.1
    assert (found["days_before"], found["days_after"]) == (28, 28)  # the first day is partly hedged
    assert found["applied"] is False


def test_without_a_control_growth_of_traffic_is_called_out(tmp_path: Path) -> None:
    rows, _, since = month(0.0, traffic=1.4)
    found = billing.effect(bill(tmp_path, rows), since)
    assert found["growth_ratio"] == pytest.approx(0.4, abs=0.05)
    assert [n["code"] for n in found["notes"]] == ["no_control"]


def test_no_growth_is_inside_the_range(tmp_path: Path) -> None:
    inside = 0
    for seed in range(20):
        rows, requests, since = month(0.0, traffic=1.2, seed=seed)
        low, high = billing.effect(bill(tmp_path, rows), since, requests)["interval"]
        inside += low <= 0.0 <= high
    assert inside >= 18


def test_thirteen_days_a_side_give_no_estimate(tmp_path: Path) -> None:
    rows, requests, since = month(0.15)
    read = bill(tmp_path, rows[15:])
    found = billing.effect(read, since, requests)
    assert (found["days_before"], found["enough"]) == (13, False)
    assert found["growth_ratio"] is None
    assert found["interval"] is None
    assert billing.effect(bill(tmp_path, rows[14:]), since, requests)["enough"] is True


def test_files_that_are_no_bill_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        billing.read(tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text('{"cost": ')
    with pytest.raises(InputError, match="not JSON"):
        billing.read(bad)
    bad.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no row"):
        billing.read(bad)
    with pytest.raises(InputError, match="two currencies"):
        bill(tmp_path, [row(START, 1.0), row(START, 1.0) | {"currency": "EUR"}])


def test_the_logs_own_traffic_is_the_control_and_its_first_copy_the_start(tmp_path: Path) -> None:
    import recommend_logs as logs

    from hedgectl.model import Workload

    rows, requests, since = month(0.15, traffic=1.4)
    per_day = {d: round(v / 20) for d, v in requests.items()}
    noon = datetime(2026, 9, 1, 20, tzinfo=UTC).timestamp()  # 13:00 in California
    at = np.concatenate([noon + 86_400.0 * k + np.arange(n) for k, n in enumerate(per_day.values())])
    ones = np.ones(len(at))
    w = Workload.of(at - at[0], ones, ones, e2e_s=ones, t0_ns=int(at[0]) * 10**9, streamed=ones * 0)
    con = logs.database(w)
    begin = int(np.searchsorted(at, noon + 86_400.0 * 28))
    first = w.take(np.array([begin]))
    logs.add(con, first, request_id=[f"chat-{begin}"], attempt_no=1, cause="hedge")
    logs.prepared(con)
    path = tmp_path / "bill.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = billing.compare(con, path)
    assert found["since"] == since.isoformat()
    assert found["control"] == "requests"
    assert found["interval"][0] < 0.15 < found["interval"][1]
    schema = schemas.load("verify")["properties"]["billing"]
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(found)))
    later = billing.compare(con, path, since=since - timedelta(days=20))  # too few days: no estimate, and no control
    assert later["enough"] is False
