"""One altair chart a kind of figure, wide (for a page) or narrow (for a telephone); colours come from the theme."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hedgectl.report import theme
from hedgectl.report.figure import Figure, ms

WIDE, NARROW = 720, 350

# axis texts: seconds and shares with their units
_SECONDS = "datum.value == 0 ? '0' : datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : format(datum.value, '~g') + ' s'"
_PERCENT = "format(datum.value * 100, '~g') + ' %'"


def spec(figure: Figure, *, narrow: bool) -> dict[str, Any]:
    """The Vega-Lite specification of a figure that has rows."""
    drawn: dict[str, Any] = _KINDS[figure.draw or figure.key](figure, narrow).to_dict()
    return drawn


def _finish(chart: Any, *, narrow: bool) -> Any:
    size = 11 if narrow else 12
    return (
        chart.configure(background="transparent", aria=False, font="Arial, Helvetica, sans-serif", padding=4)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=theme.MUTED,
            titleColor=theme.MUTED,
            gridColor=theme.GRID,
            domainColor=theme.AXIS,
            tickColor=theme.AXIS,
            labelFontSize=size,
            titleFontSize=size,
            titleFontWeight="normal",
            labelLimit=110 if narrow else 200,
        )
        .configure_legend(
            labelColor=theme.INK,
            titleColor=theme.MUTED,
            labelFontSize=size,
            titleFontSize=size,
            titleFontWeight="normal",
            orient="top",
            direction="horizontal",
            columns=3 if narrow else 0,
            symbolStrokeWidth=2.5,
            labelLimit=300,
        )
        .configure_text(fontSize=size)
        .configure_header(labelColor=theme.INK)
    )


def _data(figure: Figure, rows: Any = None) -> Any:
    import altair as alt

    return alt.Data(values=[dict(r) for r in (figure.rows if rows is None else rows)])


def _plot(narrow: bool) -> int:
    """Width left for the plot itself beside an axis of numbers."""
    return (NARROW if narrow else WIDE) - 70


def bands(figure: Figure, narrow: bool) -> Any:
    """Stacked shares, a bar a percentile band, with the band's mean written at its end."""
    import altair as alt

    names = [p.replace("_", " ") for p in figure.facts["parts"]]
    y = alt.Y("band:N", sort=None, title=None, axis=alt.Axis(labelFontSize=12, domain=False, ticks=False))
    x = alt.X(
        "share:Q",
        stack="zero",
        title="share of the band's mean time",
        axis=alt.Axis(labelExpr=_PERCENT, tickCount=3 if narrow else 6),
        scale=alt.Scale(nice=False),
    )
    base = alt.Chart(_data(figure))
    bars = base.mark_bar(stroke=theme.EDGE, strokeWidth=1).encode(
        y=y,
        x=x,
        order=alt.Order("place:Q"),
        color=alt.Color(
            "part:N", title=None, scale=alt.Scale(domain=names, range=[theme.PARTS[n] for n in names]), sort=None
        ),
    )
    words = base.mark_text(color=theme.ON_FILL).encode(
        y=y, x=alt.X("share:Q", stack="zero", bandPosition=0.5), order=alt.Order("place:Q"), text="word:N"
    )
    layers = [bars, words] if not narrow else [bars]
    ends = [r for r in figure.rows if r["place"] == 0]
    mean = (
        alt.Chart(_data(figure, ends))
        .mark_text(align="left", dx=6, color=theme.INK, fontWeight="bold")
        .encode(y=y, x=alt.datum(1), text="mean:N")
    )
    chart = alt.layer(*layers, mean).properties(width=_plot(narrow) - (95 if narrow else 110), height=alt.Step(30))
    return _finish(chart, narrow=narrow)


_HEAT_NAMES = ("none slow", "up to 5 %", "to 10 %", "to 25 %", "to 50 %", "50 % and more")


def _levels() -> Any:
    import altair as alt

    return alt.Color(
        "name:N",
        title="share of slow ones",
        sort=None,
        scale=alt.Scale(domain=list(_HEAT_NAMES), range=list(theme.LEVELS)),
        legend=alt.Legend(symbolType="square", symbolStrokeWidth=0, columns=3, titleOrient="top"),
    )


def _named(figure: Figure) -> list[dict[str, Any]]:
    return [{**r, "name": _HEAT_NAMES[r["level"]]} for r in figure.rows if r["level"] >= 0]


def heat(figure: Figure, narrow: bool) -> Any:
    """Replica by time; the worst cells carry a cross as well, so that colour is not alone."""
    import altair as alt

    order = figure.facts["order"]
    row = 22 if len(order) <= 12 else 14
    y = alt.Y(
        "replica:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(domain=False, ticks=False)
    )
    hours = figure.facts["span_ns"] / 3_600_000_000_000
    form = "%H:%M" if hours <= 36 else "%d %b %H:%M" if hours <= 96 else "%d %b"
    count: Any = 3 if narrow else 5 if hours <= 96 else 8
    if hours > 96:
        count = {"interval": "day", "step": max(1, round(hours / 24 / (4 if narrow else 8)))}
    x = alt.X(
        "from:T",
        title="time (UTC)",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(format=form, grid=False, tickCount=count, labelOverlap=True),
    )
    base = alt.Chart(_data(figure, _named(figure)))
    cells = base.mark_rect(stroke=theme.EDGE, strokeWidth=0.5).encode(y=y, x=x, x2="to:T", color=_levels())
    slots = max(figure.facts["slots"], 1)
    room = (_plot(narrow) - (30 if narrow else 50)) / slots
    crosses = (
        base.transform_filter("datum.level == 5")
        .mark_text(text="×", color=theme.ON_FILL, fontSize=min(13, max(6, room * 1.1)), baseline="middle")
        .encode(y=y, x=alt.X("middle:T"))
        .transform_calculate(middle="(toNumber(toDate(datum.from)) + toNumber(toDate(datum.to))) / 2")
    )
    layers = [cells, crosses] if room >= 5 else [cells]
    chart = alt.layer(*layers).properties(width=_plot(narrow) - (30 if narrow else 50), height=row * len(order))
    return _finish(chart, narrow=narrow)


def week(figure: Figure, narrow: bool) -> Any:
    """Weekday by hour, with the policy's hours outlined."""
    import altair as alt

    y = alt.Y("day:N", sort=figure.facts["days"], title=None, axis=alt.Axis(domain=False, ticks=False))
    x = alt.X(
        "hour:O",
        title=f"hour of the day ({figure.facts['zone']})",
        axis=alt.Axis(labelAngle=0, values=list(range(0, 24, 6 if narrow else 3)), domain=False, ticks=False),
        scale=alt.Scale(domain=list(range(24))),
    )
    base = alt.Chart(_data(figure, _named(figure)))
    cells = base.mark_rect(stroke=theme.EDGE, strokeWidth=1).encode(y=y, x=x, color=_levels())
    crosses = base.transform_filter("datum.level == 5").mark_text(text="×", color=theme.ON_FILL).encode(y=y, x=x)
    outline = (
        base.transform_filter("datum.window")
        .mark_rect(fill=None, stroke=theme.ARMS["hedged"], strokeWidth=2)
        .encode(y=y, x=x)
    )
    chart = alt.layer(cells, crosses, outline).properties(width=_plot(narrow) - 10, height=alt.Step(24))
    return _finish(chart, narrow=narrow)


def kinds(figure: Figure, narrow: bool) -> Any:
    """Two marks a kind: its share of the slow requests and of all, joined by a line."""
    import altair as alt

    order = [r["name"] for r in figure.rows]
    long = [
        {"name": r["name"], "of": of, "share": r[key]}
        for r in figure.rows
        for of, key in (("of all requests", "overall"), ("of the slow requests", "tail"))
    ]
    lines = {"labelExpr": "split(datum.label, ' = ')"} if narrow else {}  # there the value goes under its field
    labels = alt.Axis(domain=False, ticks=False, labelLimit=160 if narrow else 300, **lines)
    y = alt.Y("name:N", sort=order, title=None, axis=labels)
    axis = alt.Axis(labelExpr=_PERCENT, tickCount=3 if narrow else 6)
    names = ["of all requests", "of the slow requests"]
    rule = (
        alt.Chart(_data(figure))
        .mark_rule(color=theme.AXIS, strokeWidth=2)
        .encode(y=y, x=alt.X("overall:Q", title="share", axis=axis), x2="tail:Q")
    )
    dots = (
        alt.Chart(_data(figure, long))
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            y=y,
            x=alt.X("share:Q", title="share", axis=axis),
            color=alt.Color(
                "of:N", title=None, scale=alt.Scale(domain=names, range=[theme.ARMS["as is"], theme.ACCENT])
            ),
            shape=alt.Shape("of:N", title=None, scale=alt.Scale(domain=names, range=["circle", "diamond"])),
        )
    )
    chart = alt.layer(rule, dots).properties(
        width=_plot(narrow) - (70 if narrow else 190), height=alt.Step(36 if narrow else 24)
    )
    return _finish(chart, narrow=narrow)


def observed(figure: Figure, narrow: bool) -> Any:
    """A bar a field: the share of requests that have it."""
    import altair as alt

    order = [r["field"] for r in figure.rows]
    rows = [{**r, "word": f"{100 * r['share']:.1f} %"} for r in figure.rows]
    y = alt.Y("field:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False))
    x = alt.X(
        "share:Q",
        title="share of requests",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(labelExpr=_PERCENT, tickCount=4),
    )
    base = alt.Chart(_data(figure, rows))
    bars = base.mark_bar(color=theme.BAR).encode(y=y, x=x)
    words = base.mark_text(align="left", dx=5, color=theme.INK).encode(y=y, x=x, text="word:N")
    chart = alt.layer(bars, words).properties(width=_plot(narrow) - (110 if narrow else 160), height=alt.Step(20))
    return _finish(chart, narrow=narrow)


def _seconds_axis(narrow: bool) -> Any:
    import altair as alt

    return alt.Axis(labelExpr=_SECONDS, tickCount=4 if narrow else 8, labelOverlap="greedy")


def _log_seconds(low: float, high: float, narrow: bool) -> Any:
    """A log axis with ticks at 1, 2 and 5 of every decade, thinned until they stand apart."""
    import altair as alt

    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    most = 5 if narrow else 10
    for steps in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{s}e{d}") for d in decades for s in steps if low <= float(f"{s}e{d}") <= high]
        if len(ticks) <= most:
            break
    return alt.Axis(labelExpr=_SECONDS, values=ticks, labelOverlap="greedy")


def frontier(figure: Figure, narrow: bool) -> Any:
    """Above: the goal's percentile by delay. Below: the price by delay. The policy's delay is marked in both."""
    import altair as alt

    facts, width = figure.facts, _plot(narrow)
    paid = "cost" if facts["price"] == "extra cost" else "copies"
    delays = [r["delay_s"] for r in figure.rows]
    x = alt.X(
        "delay_s:Q",
        title="delay before the copy",
        scale=alt.Scale(type="log", nice=False),
        axis=_log_seconds(min(delays), max(delays), narrow),
    )
    base = alt.Chart(_data(figure))
    mark = [r for r in figure.rows if r["chosen"]]
    here = alt.Chart(_data(figure, mark))
    color = theme.ARMS["hedged"]

    def panel(y: Any, word: str) -> list[Any]:
        point = alt.OverlayMarkDef(color=color, size=25)
        line = base.mark_line(color=color, strokeWidth=2, point=point).encode(x=x, y=y)
        upright = here.mark_rule(color=theme.ACCENT, strokeDash=[5, 3], strokeWidth=1.5).encode(x=x)
        dot = here.mark_point(filled=True, color=theme.ACCENT, size=110, shape="diamond", opacity=1).encode(x=x, y=y)
        left = mark[0]["delay_s"] > math.sqrt(min(delays) * max(delays))
        text = here.mark_text(
            align="right" if left else "left", dx=-8 if left else 8, color=theme.ACCENT, fontWeight="bold", text=word
        ).encode(x=x, y=alt.value(195))
        return [line, upright, dot, text] if word else [line, upright, dot]

    y1 = alt.Y("goal_s:Q", title=facts["name"], scale=alt.Scale(zero=True), axis=_seconds_axis(narrow))
    top = panel(y1, f"{facts['taken']}: {ms(1e3 * mark[0]['delay_s'])}")
    lines = [{"y": figure.rows[0]["as_is_s"], "word": "as is", "color": theme.ARMS["as is"], "dash": [2, 2]}]
    if facts["routed_s"] is not None:
        lines.append(
            {"y": facts["routed_s"], "word": "better routed", "color": theme.ARMS["better routed"], "dash": [8, 3]}
        )
    for one in lines:
        if one["y"] is None:
            continue
        held = alt.Chart(_data(figure, [one]))
        top.append(held.mark_rule(color=one["color"], strokeDash=one["dash"], strokeWidth=1.5).encode(y="y:Q"))
        top.append(
            held.mark_text(align="right", dx=-4, dy=-7, color=one["color"]).encode(
                y="y:Q", x=alt.value(width - 6), text="word:N"
            )
        )
    y2 = alt.Y(
        f"{paid}:Q", title=facts["price"], scale=alt.Scale(zero=True), axis=alt.Axis(labelExpr=_PERCENT, tickCount=4)
    )
    chart = alt.vconcat(
        alt.layer(*top).properties(width=width, height=210),
        alt.layer(*panel(y2, "")).properties(width=width, height=110),
        spacing=14,
    )
    return _finish(chart, narrow=narrow)


_DASHES = {"as is": [2, 2], "better routed": [8, 3], "hedged": [1, 0]}


def _arm_scales(names: list[str]) -> dict[str, Any]:
    import altair as alt

    return {
        "color": alt.Color("arm:N", title=None, scale=alt.Scale(domain=names, range=[theme.ARMS[n] for n in names])),
        "strokeDash": alt.StrokeDash(
            "arm:N", title=None, scale=alt.Scale(domain=names, range=[_DASHES[n] for n in names])
        ),
    }


def survival(figure: Figure, narrow: bool) -> Any:
    """Share still waiting against time, both on log axes; an arm a line, the delay upright."""
    import altair as alt

    waited = [r["seconds"] for r in figure.rows]
    x = alt.X(
        "seconds:Q",
        title="waited",
        scale=alt.Scale(type="log", nice=False),
        axis=_log_seconds(min(waited), max(waited), narrow),
    )
    y = alt.Y(
        "left:Q",
        title="share still waiting",
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(labelExpr=_PERCENT, values=[1, 0.1, 0.01, 0.001, 0.0001, 0.00001]),
    )
    lines = (
        alt.Chart(_data(figure))
        .mark_line(interpolate="step-after", strokeWidth=2.2)
        .encode(x=x, y=y, order="seconds:Q", **_arm_scales(figure.facts["arms"]))
    )
    layers = [lines]
    if figure.facts["delay_s"] is not None:
        here = alt.Chart(_data(figure, [{"seconds": figure.facts["delay_s"], "left": 1.0}]))
        layers.append(here.mark_rule(color=theme.ACCENT, strokeDash=[5, 3], strokeWidth=1.5).encode(x=x))
        layers.append(
            here.mark_text(text="delay", align="left", dx=5, dy=8, color=theme.ACCENT, fontWeight="bold").encode(
                x=x, y=y
            )
        )
    return _finish(alt.layer(*layers).properties(width=_plot(narrow), height=260), narrow=narrow)


def loads(figure: Figure, narrow: bool) -> Any:
    """The goal's percentile against offered load, an arm a line, with the load up to which copies hold."""
    import altair as alt

    x = alt.X(
        "rho:Q",
        title="offered load, rho (1 = saturated)",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(tickCount=4 if narrow else 8),
    )
    y = alt.Y(
        "seconds:Q", title=figure.facts["name"], scale=alt.Scale(type="log", nice=True), axis=_seconds_axis(narrow)
    )
    base = alt.Chart(_data(figure))
    scales = _arm_scales(figure.facts["arms"])
    lines = base.mark_line(strokeWidth=2.2).encode(x=x, y=y, order="rho:Q", **scales)
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(x=x, y=y, color=scales["color"])
    layers = [lines, dots]
    if figure.facts["holds_rho"] is not None:
        here = alt.Chart(_data(figure, [{"rho": figure.facts["holds_rho"]}]))
        layers.append(here.mark_rule(color=theme.ACCENT, strokeDash=[5, 3], strokeWidth=1.5).encode(x=x))
        layers.append(
            here.mark_text(text="holds up to here", align="right", dx=-6, color=theme.ACCENT, fontWeight="bold").encode(
                x=x, y=alt.value(10)
            )
        )
    return _finish(alt.layer(*layers).properties(width=_plot(narrow), height=240), narrow=narrow)


_KINDS: dict[str, Callable[[Figure, bool], Any]] = {
    "bands": bands,
    "heat": heat,
    "week": week,
    "kinds": kinds,
    "observed": observed,
    "frontier": frontier,
    "survival": survival,
    "loads": loads,
}
