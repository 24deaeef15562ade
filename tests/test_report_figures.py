"""The figures of a report, one by one, and those that the terminal draws."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from analysis_logs import MS, START_NS, fleet, table

from hedgectl import decompose, sql, survival
from hedgectl.cli.views import plot
from hedgectl.decompose import Selection
from hedgectl.report import data, replayed, theme
from hedgectl.report.build import draw


@pytest.mark.parametrize("name", ["bands", "replica_slots", "worst_hour", "hour_weekday", "observed"])
def test_queries_of_the_report_run_without_parameters(name: str) -> None:
    with table(fleet(500, replicas=2, seed=4)) as con:
        decompose.prepare(con)
        text = sql.text(f"report/{name}")
        parameters = dict.fromkeys(con.extract_statements(text)[0].named_parameters)
        assert con.execute(text, parameters or None).fetchall()


@pytest.mark.parametrize("span_s", [0, 1, 59, 600, 6000, 90_000, 7 * 86_400, 400 * 86_400])
def test_slots_fill_the_span_and_are_few(span_s: int) -> None:
    slot = data.slot_for(span_s * 1_000_000_000)
    assert span_s * 1_000_000_000 / slot <= data.SLOTS
    assert data.slot_for(span_s * 1_000_000_000, longer_than=slot) > slot


def test_one_slow_replica_and_a_slow_fleet_are_told_apart() -> None:
    said = {}
    for name, how in (("alone", {"alone": 0.1}), ("together", {"together": 0.1})):
        with table(fleet(8000, replicas=4, seed=2, factor=8.0, spell_s=40.0, **how)) as con:
            prepared = decompose.prepare(con)
            figure = data.replicas(con, prepared, 9_000.0)[0]
            said[name] = re.search(r"In (\d+) slots .* in (\d+) of them .* in (\d+) more than half", figure.says)
    alone, together = (said[k] for k in ("alone", "together"))
    assert alone is not None
    assert together is not None
    assert int(alone.group(2)) > int(alone.group(3))
    assert int(together.group(3)) > int(together.group(2))


@pytest.mark.parametrize(
    ("slow", "attempts", "place"), [(0, 4, -1), (0, 5, 0), (1, 100, 1), (1, 10, 2), (1, 4 * 5, 1), (1, 5, 3), (3, 6, 5)]
)
def test_levels(slow: int, attempts: int, place: int) -> None:
    assert data.level(slow, attempts) == place


def test_windows_over_midnight() -> None:
    night = {"days": [1], "from": "22:00", "to": "02:00"}
    hours = {(d, h) for d in range(1, 8) for h in range(24) if data._inside(night, d, h)}
    assert hours == {(1, 22), (1, 23), (2, 0), (2, 1)}
    assert data._inside({"days": [7], "from": "13:00", "to": "15:30"}, 7, 15)
    assert not data._inside({"days": [7], "from": "13:00", "to": "15:00"}, 7, 15)


def test_long_names_lose_their_common_beginning_only() -> None:
    names = ["vllm-chat-7d9c5b-aaaaa", "vllm-chat-7d9c5b-aabbb"]
    begin = data.common_beginning(names)
    assert begin == "vllm-chat-7d9c5b-"
    assert data.common_beginning(["r0", "r1"]) == ""
    assert data.common_beginning(["only-one-with-a-long-name"]) == ""


class TestSurvival:
    def test_matches_the_plain_share_without_censoring(self) -> None:
        x = np.random.default_rng(1).lognormal(0, 1, 2000)
        for value, left in survival.curve(x, np.ones(2000, dtype=bool), np.ones(2000))[1:]:
            assert left == pytest.approx(float((x > value).mean()), abs=1e-9)

    def test_never_rises(self) -> None:
        rng = np.random.default_rng(2)
        points = survival.curve(rng.exponential(1, 500), rng.random(500) < 0.7, np.ones(500))
        assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in itertools.pairwise(points))

    def test_what_was_cut_short_lifts_the_curve(self) -> None:
        x = np.array([1.0, 2.0, 3.0, 4.0])
        cut = dict(survival.curve(x, np.array([True, False, True, True]), np.ones(4)))
        plain = dict(survival.curve(x, np.ones(4, dtype=bool), np.ones(4)))
        assert cut[3.0] > plain[3.0]

    def test_a_weight_is_that_many_rows(self) -> None:
        x = np.array([1.0, 2.0, 4.0])
        weighted = dict(survival.curve(x, np.ones(3, dtype=bool), np.array([1.0, 2.0, 1.0])))
        assert weighted[2.0] == pytest.approx(0.25)

    @pytest.mark.parametrize("values", [[], [float("nan")], [0.0, -1.0]])
    def test_nothing_finished_is_no_curve(self, values: list[float]) -> None:
        x = np.array(values)
        assert survival.curve(x, np.ones(len(x), dtype=bool), np.ones(len(x))) == []

    def test_reading_it_back(self) -> None:
        x = np.random.default_rng(3).exponential(1, 5000)
        points = survival.curve(x, np.ones(5000, dtype=bool), np.ones(5000))
        assert replayed.at(points, 0.01) == pytest.approx(float(np.quantile(x, 0.99)), rel=0.03)
        assert replayed.at(points, 1e-9) is None
        assert replayed.at([], 0.5) is None


class TestDark:
    def test_every_colour_of_a_chart_has_a_dark_form(self) -> None:
        with table(fleet(2500, replicas=3, alone=0.1, seed=6)) as con:
            prepared = decompose.prepare(con)
            figures = [data.bands(con), *data.replicas(con, prepared, 5000.0)]
        for figure in figures:
            for text in draw(figure):
                used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-fA-F]+)"', text))
                assert used, figure.key
                assert used <= set(theme.DARK), used - set(theme.DARK)

    def test_light_forms_can_be_told_apart(self) -> None:
        every = [theme.INK, theme.MUTED, theme.GRID, theme.AXIS, theme.ON_FILL, theme.EDGE, theme.ACCENT, theme.BAR]
        every += [*theme.PARTS.values(), *theme.ARMS.values(), *theme.LEVELS]
        assert sorted(every) == sorted(theme.DARK)


class TestTerminal:
    def test_sparkline(self) -> None:
        assert plot.sparkline([0.0, None, 0.5, 1.0], 1.0) == "▁·▅█"
        assert plot.sparkline([0.0, 0.0], 0.0) == "▁▁"
        assert plot.sparkline([], 1.0) == ""

    def test_survival_is_drawn_down_to_the_last_request(self) -> None:
        x = np.random.default_rng(1).exponential(1000, 3000)
        curve = survival.curve(x, np.ones(3000, dtype=bool), np.ones(3000))
        (block,) = plot.survival("waiting", curve, 3000, 4)
        bars = [row[1].rstrip() for row in block.rows]
        assert len(bars) == plot.ROWS
        assert all(len(a) >= len(b) for a, b in itertools.pairwise(bars))
        assert bars[-1] == ""
        assert "n = 3,000" in block.caption
        assert "4 that were cut short" in block.caption

    @pytest.mark.parametrize("curve", [[], [(1.0, 1.0)], [(5.0, 1.0), (5.0, 0.5)]])
    def test_no_curve_no_plot(self, curve: list[tuple[float, float]]) -> None:
        assert plot.survival("waiting", curve, 10) == []


def test_diagnosis_shows_replicas_over_time_on_sixty_columns() -> None:
    from hedgectl.cli import output
    from hedgectl.diagnose import diagnose

    with table(fleet(4000, replicas=3, alone=0.1, factor=8.0, seed=3)) as con:
        doc = diagnose(con, decompose.prepare(con))
    text = output.render(doc, "table", width=60)
    assert all(len(line) <= 60 for line in text.splitlines())
    lines = [line for line in text.splitlines() if "▁" in line]
    assert lines
    assert all(len(line.split()[-1]) == 24 for line in lines)


def test_replicas_over_time_count_what_was_slow() -> None:
    from hedgectl.diagnose.replicas import OVER_TIME, over_time

    at = np.linspace(0.0, 240.0, 241)
    mine = at < 200.0
    slow = (at >= 100.0) & (at < 110.0)
    course = over_time(at, mine, slow)
    assert len(course) == OVER_TIME
    assert course[10] == 1.0
    assert course[0] == 0.0
    assert course[-1] is None
    assert over_time(np.zeros(0), np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)) == ()
    assert over_time(np.array([7.0]), np.array([True]), np.array([True]))[0] == 1.0


def test_week_shows_hours_where_the_log_spans_days() -> None:
    hours = np.arange(24 * 9)
    n = len(hours) * 30
    at = np.repeat(hours, 30) * 3600 + np.tile(np.arange(30) * 100, len(hours))
    late = np.arange(n) % 20 == 0
    columns = {
        "arrival_ns": START_NS + at.astype(np.int64) * 1000 * MS,
        "e2e_ns": np.where(late, 9000, 1000) * MS,
        "model": np.full(n, "chat", dtype=object),
    }
    with table(columns) as con:
        prepared = decompose.prepare(con, Selection(tz="Asia/Tokyo"))
        figure = data.week(con, prepared, 5000.0, [])
        windows = [{"windows_utc": [{"days": [1, 2, 3, 4, 5, 6, 7], "from": "13:00", "to": "15:00"}]}]
        with_windows = data.week(con, prepared, 5000.0, windows)
    assert figure.missing is None
    assert figure.facts["zone"] == "Asia/Tokyo"
    assert len(figure.rows) == 7 * 24
    assert figure.says.startswith("5.0 % of requests are slow")
    assert with_windows.facts["zone"] == "UTC"
    assert {r["hour"] for r in with_windows.rows if r["window"]} == {13, 14}
    assert draw(with_windows)[0].startswith("<svg")
