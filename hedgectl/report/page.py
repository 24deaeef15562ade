"""The HTML of the report: one file, no network, no script that is needed; every text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from hedgectl.report import theme
from hedgectl.report.figure import Figure, Table, count
from hedgectl.report.words import Opening, ScopeWords

# Tables are folded on a screen and open on paper; without script they stay as the reader left them.
_PRINT = (
    "addEventListener('beforeprint',()=>document.querySelectorAll('details:not([open])').forEach(d=>{d.open=true;d.dataset.was='1'}));"
    "addEventListener('afterprint',()=>document.querySelectorAll('details[data-was]').forEach(d=>{d.open=false;delete d.dataset.was}));"
)

_SHORT = {
    "bands": "Time by percentile",
    "replicas": "Replicas over time",
    "worst_hour": "Worst hour",
    "frontier": "Gain and price",
    "survival_ttft": "First token",
    "survival_e2e": "Whole answer",
    "loads": "Load",
    "kinds": "Kinds of requests",
    "week": "Hours",
    "observed": "What is logged",
    "checks": "Data checks",
}


def page(
    *,
    title: str,
    facts: Sequence[str],
    opening: Opening,
    figures: Sequence[Figure],
    drawings: dict[str, tuple[str, str]],
    version: str,
) -> str:
    """The whole document. `drawings`: (wide, narrow) SVG by the key of a figure that could be drawn."""
    style = files("hedgectl.report").joinpath("style.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{theme.dark_rules()}\n}}"
    links = "".join(f'<li><a href="#{f.key}">{escape(_SHORT[f.key])}</a></li>' for f in figures)
    body = "".join(_figure(f, drawings.get(f.key)) for f in figures)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>{escape(title)}</title>
<style>
{style}{dark}
</style>
</head>
<body>
<a class="skip" href="#decision">Skip to the decision</a>
<header>
<h1>{escape(title)}</h1>
{"".join(f'<p class="facts">{escape(f)}</p>' for f in facts)}
</header>
<nav aria-label="Figures"><ul>{links}</ul></nav>
<main>
{_opening(opening)}
{body}</main>
<footer><p>Made by hedgectl {escape(version)}. Times are UTC unless said otherwise; a percentile stands beside its n. \
Slow means beyond the threshold that the verdict uses.</p></footer>
<script>{_PRINT}</script>
</body>
</html>
"""


def _opening(told: Opening) -> str:
    many = f"<p>The {told.left_out} other scopes are in the table only.</p>" if told.left_out else ""
    table = _table(told.table, "Decision of every scope") if told.table is not None else ""
    notes = "".join(f"<li>{escape(n)}</li>" for n in told.notes)
    return f"""<section id="decision" aria-labelledby="decision-title">
<h2 id="decision-title">What to do</h2>
<p><strong>Verdict.</strong> {escape(told.verdict)} ({escape(told.confidence)} confidence)</p>
{"".join(_scope(s) for s in told.scopes)}{many}{table}
</section>
<section id="verdict" aria-labelledby="verdict-title">
<h2 id="verdict-title">Why this verdict</h2>
{_list(told.because)}{_titled("Advice", told.advice)}{f"<details><summary>What to know about these numbers ({len(told.notes)})</summary><ul>{notes}</ul></details>" if notes else ""}
</section>
"""


def _scope(one: ScopeWords) -> str:
    name = f"<h3>{escape(one.name)}</h3>" if one.name else ""
    instead = ""
    if one.instead:
        items = "".join(f"<li>{escape(t)}</li>" for t in one.instead)
        instead = f"<p><strong>{escape(one.instead_title)}</strong></p><ol>{items}</ol>"
    limits = _topics(one.limits)
    if limits:
        limits = f"<details><summary>Who gets a copy, and when none is sent</summary>{limits}</details>"
    return f"""<div class="decision {one.decision}">{name}
<p class="headline">{escape(one.headline)}</p>
<p>{escape(one.sentence)}</p>
{instead}{_topics(one.argument)}{limits}
</div>
"""


def _topics(told: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    rows = "".join(f"<dt>{escape(t)}</dt>{''.join(f'<dd>{escape(x)}</dd>' for x in texts)}" for t, texts in told)
    return f"<dl>{rows}</dl>" if rows else ""


def _list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(t)}</li>' for t in texts)}</ul>" if texts else ""


def _titled(title: str, texts: Sequence[str]) -> str:
    return f"<p><strong>{escape(title)}</strong></p>{_list(texts)}" if texts else ""


def _figure(figure: Figure, drawing: tuple[str, str] | None) -> str:
    head = f'<section id="{figure.key}" aria-labelledby="{figure.key}-title">\n<h2 id="{figure.key}-title">{escape(figure.title)}</h2>\n'
    if figure.missing is not None:
        return f'{head}<p class="missing">{escape(figure.missing)}</p>\n</section>\n'
    says = f'<p id="{figure.key}-says">{escape(figure.says)}</p>\n'
    picture = ""
    if drawing is not None:
        wide, narrow = drawing
        label = escape(f"Chart: {figure.title}. {figure.says} Its numbers are in the table below.", quote=True)
        picture = (
            f'<figure data-chart="{figure.key}"><div role="img" aria-label="{label}">'
            f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div></div>'
            f"<figcaption>n = {count(figure.n)} {escape(figure.of)}</figcaption></figure>\n"
        )
    table = ""
    if figure.table is not None:
        inner = _table(figure.table, f"Numbers: {figure.title}")
        table = f"<details><summary>{escape(_SHORT[figure.key])}: the numbers as a table (n = {count(figure.n)} {escape(figure.of)})</summary>{inner}</details>\n"
    return f"{head}{says}{picture}{table}</section>\n"


def _table(table: Table, name: str) -> str:
    def cell(tag: str, text: str, place: int) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        word = ' class="word"' if place < table.left else ""
        return f"<{tag}{scope}{word}>{escape(text)}</{tag}>"

    head = "".join(cell("th", c, i) for i, c in enumerate(table.columns))
    rows = "".join(f"<tr>{''.join(cell('td', c, i) for i, c in enumerate(r))}</tr>" for r in table.rows)
    label = escape(name, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
