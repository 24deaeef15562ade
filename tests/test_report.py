"""The report without a browser: what it says, that it stands alone, and what it does where the log cannot give a figure."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis_logs import MS, START_NS, fleet, table

from hedgectl import decompose, sql, survival
from hedgectl.cli.views import plot
from hedgectl.decompose import Selection
from hedgectl.errors import HedgectlError
from hedgectl.model import Workload
from hedgectl.policy import parse
from hedgectl.recommend import by_replay
from hedgectl.recommend.options import Options
from hedgectl.report import data, page, replayed, svg, theme, words
from hedgectl.report.build import draw, report
from hedgectl.report.figure import Figure, Table

FIGURES = (
    "bands",
    "replicas",
    "frontier",
    "survival_ttft",
    "survival_e2e",
    "loads",
    "kinds",
    "week",
    "observed",
    "checks",
)


class Seen(HTMLParser):
    """What a page has: tags with their attributes, its text, and whether every tag is closed."""

    VOID = frozenset({"meta", "br", "link", "img", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes <{self.open[-1:]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def has(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and all(a.get(k.rstrip("_")) == v for k, v in wanted.items())]


@pytest.fixture(scope="module")
def html() -> str:
    with table(fleet(6000, replicas=4, alone=0.06, factor=8.0, seed=3)) as con:
        prepared = decompose.prepare(con)
        return report(con, prepared, Options())[0]


@pytest.fixture(scope="module")
def seen(html: str) -> Seen:
    return Seen(html)


def test_page_stands_alone(html: str, seen: Seen) -> None:
    assert seen.open == []
    assert len(html.encode()) < 3_000_000
    for tag, attributes in seen.tags:
        for name in ("src", "href", "xlink:href", "srcset", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), f"<{tag} {name}={value}>"
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_page_has_every_figure_in_the_order_of_worth(seen: Seen) -> None:
    sections = [a["id"] for a in seen.has("section")]
    assert sections[:2] == ["decision", "verdict"]
    assert [s for s in sections[2:] if s != "worst_hour"] == list(FIGURES)
    targets = {a["id"] for _, a in seen.tags if "id" in a}
    assert {str(a["href"])[1:] for a in seen.has("a")} <= targets


def test_every_chart_says_what_it_shows_and_has_its_numbers(html: str, seen: Seen) -> None:
    charts = [a["data-chart"] for a in seen.has("figure")]
    assert "bands" in charts
    assert "replicas" in charts
    assert "frontier" in charts
    labels = [a["aria-label"] or "" for a in seen.has("div", role="img")]
    assert len(labels) == len(charts)
    assert all(len(label) > 60 for label in labels)
    for key in charts:
        section = html[html.index(f'<section id="{key}"') :].split("</section>", 1)[0]
        assert re.search(r"<summary>[^<]*\(n = [\d,]+ [a-z ]+\)", section), key
        assert section.count("<tr>") >= 2, key
        assert section.count("<svg") == 2, key  # one for a page, one for a telephone
    ids = [a["id"] for _, a in seen.tags if a.get("id")]
    assert len(ids) == len(set(ids))


def test_numbers_of_the_page_are_those_of_the_documents(seen: Seen) -> None:
    with table(fleet(6000, replicas=4, alone=0.06, factor=8.0, seed=3)) as con:
        prepared = decompose.prepare(con)
        told = decompose.rows(con, "report/bands")
        assert sum(r["requests"] for r in told) == 6000
        for r in told:
            parts = sum(r[f"{p}_ms"] for p in data.PARTS)
            assert parts == pytest.approx(r["mean_ms"], abs=0.01)
        figure = data.bands(con)
        assert prepared.requests == 6000
    text = "".join(seen.text)
    assert figure.says in text
    assert "6,000 requests" in text


@pytest.mark.parametrize(
    ("n", "last"),
    [
        (1, "all requests"),
        (3, "slowest half"),
        (9, "slowest quarter"),
        (19, "slowest 10 %"),
        (99, "slowest 5 %"),
        (100, "slowest 1 %"),
    ],
)
def test_no_band_begins_beyond_the_last_request(n: int, last: str) -> None:
    with table(fleet(n, replicas=1, seed=1)) as con:
        decompose.prepare(con)
        figure = data.bands(con)
    assert figure.table is not None
    assert figure.table.rows[-1][0] == last
    assert figure.n == n


def test_same_log_same_bytes(html: str) -> None:
    with table(fleet(6000, replicas=4, alone=0.06, factor=8.0, seed=3)) as con:
        again = report(con, decompose.prepare(con), Options())[0]
    assert again == html


def test_names_from_the_log_are_escaped() -> None:
    columns = fleet(2000, replicas=3, alone=0.1, seed=5)
    evil = '<script>alert("x")</script>'
    columns["replica"] = np.array([evil if r == "r0" else r for r in columns["replica"]], dtype=object)
    columns["model"] = np.full(2000, "<img src=x onerror=alert(1)>", dtype=object)
    with table(columns) as con:
        html = report(con, decompose.prepare(con), Options())[0]
    assert evil not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html
    assert len(Seen(html).has("script")) == 1


def test_a_figure_the_log_cannot_give_says_what_to_log() -> None:
    columns = fleet(1500, replicas=3, seed=2)
    for name in ("ttft_ns", "ttft_basis", "replica", "streamed"):
        del columns[name]
    with table(columns) as con:
        html, document = report(con, decompose.prepare(con), Options())
    seen = Seen(html)
    assert document["policies"][0]["decision"] in ("do_not_hedge", "not_enough_data", "hedge")
    charts = {a["data-chart"] for a in seen.has("figure")}
    assert not charts & {"replicas", "survival_ttft", "loads", "week"}
    text = "".join(seen.text)
    assert "names no replica" in text
    assert "[engine]" in text or "No policy was tried" in text
    assert "hedgectl ingest" in text  # the week


def test_a_tiny_log_gives_a_page_all_the_same() -> None:
    with table(fleet(3, replicas=1, seed=1)) as con:
        html, document = report(con, decompose.prepare(con), Options())
    assert document["policies"][0]["decision"] == "not_enough_data"
    assert "Not enough data to decide" in html
    assert Seen(html).open == []


def test_several_scopes_have_a_table_worst_first_and_each_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []
    plain = by_replay.ground

    def counted(workload: Workload, *rest: Any) -> Any:
        fitted.append(len(workload))
        return plain(workload, *rest)

    monkeypatch.setattr(by_replay, "ground", counted)
    one, two = fleet(1500, replicas=3, seed=1), fleet(1500, replicas=3, seed=2, alone=0.1)
    two["model"] = np.full(1500, "code", dtype=object)
    both = {k: np.concatenate([one[k], two[k]]) for k in one}
    with table(both) as con:
        html, document = report(con, decompose.prepare(con), Options())
    assert fitted == [1500, 1500]  # for the decisions and the figures alike
    names = [p["scope"]["model"] for p in document["policies"]]
    assert sorted(names) == ["chat", "code"]
    decision = html[html.index('<section id="decision"') :].split("</section>", 1)[0]
    assert "Decision of every scope" in decision
    assert decision.index(f"<h3>{names[0]}</h3>") < decision.index(f"<h3>{names[1]}</h3>")


def test_without_the_extra_the_hint_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HedgectlError) as told:
        svg.require()
    assert "pip install 'hedgectl[report]'" in (told.value.hint or "")


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


def test_cheaper_cure_is_put_first_where_it_gains_as_much() -> None:
    def title(routed_ms: float) -> str:
        entry: dict[str, Any] = {
            "scope": {"model": "chat"},
            "decision": "hedge",
            "confidence": "high",
            "instead": [{"code": "route_least_outstanding", "text": "route", "expected": {"e2e_p99_ms": routed_ms}}],
            "hedge": {"trigger": "response", "delay_ms": 1000.0},
            "projection": {"hedged": {"e2e_ms": {"n": 5000, "p99": 8000.0}}},
        }
        document = parse({"schema": "hedgectl/policy.v1", "as_of": "2026-11-29T00:00:00Z", "policies": [entry]})
        return words._instead_title(document, document.policies[0])

    assert "first" in title(7000.0).lower().split(":")[0]
    assert title(9000.0) == "Also worth doing, best first"


def test_page_without_notes_or_figures_is_whole() -> None:
    told = words.Opening("v", "low", (), (), (), None, 0, ())
    figure = Figure("checks", "Data checks", "All pass & more.", 3, table=Table(("a", "b"), [("1", "2")]))
    seen = Seen(page.page(title="t", facts=[], opening=told, figures=[figure], drawings={}, version="1"))
    assert seen.open == []
    assert "All pass & more." in "".join(seen.text)


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


def test_svg_of_a_chart_keeps_its_ids_apart() -> None:
    with table(fleet(1500, replicas=2, seed=8)) as con:
        prepared = decompose.prepare(con)
        wide, narrow = draw(data.replicas(con, prepared, 5000.0)[0])
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (wide, narrow)]
    assert not ids[0] & ids[1]
    for text, own in zip((wide, narrow), ids, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= own


def test_style_sheet_ships_with_the_package() -> None:
    assert (Path(page.__file__).parent / "style.css").is_file()
