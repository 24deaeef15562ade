"""The report without a browser: what it says, that it stands alone, and what it does where the log cannot give a figure."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis_logs import fleet, table

from hedgectl import decompose
from hedgectl.errors import HedgectlError
from hedgectl.model import Workload
from hedgectl.policy import parse
from hedgectl.recommend import by_replay
from hedgectl.recommend.options import Options
from hedgectl.report import data, page, svg, words
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
