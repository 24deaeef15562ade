"""The report of a prepared selection: the documents, the figures, their drawings, the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hedgectl
from hedgectl.checks import check
from hedgectl.decompose import Prepared
from hedgectl.diagnose import diagnose
from hedgectl.policy import PolicyDocument, parse
from hedgectl.recommend.options import Options
from hedgectl.recommend.run import recommended
from hedgectl.report import charts, data, page, replayed, svg, words
from hedgectl.report.figure import Figure, count

if TYPE_CHECKING:
    import duckdb


def report(con: duckdb.DuckDBPyConnection, prepared: Prepared, options: Options) -> tuple[str, dict[str, Any]]:
    """(HTML, the policy document it shows). The same log, options and seed give the same bytes.

    Raises HedgectlError if the drawing libraries are missing, InputError if the selection holds no request.
    """
    svg.require()
    options.say("diagnosing", 0.0)
    diagnosis = diagnose(con, prepared, seed=options.seed)
    found = recommended(con, prepared, options, diagnosis)
    document = found.document
    policy = parse(document)
    threshold = diagnosis["tail"]["threshold_ms"]
    first = policy.policies[0]
    ground = replayed.ground(found.slowest, options)
    future = replayed.figures(ground, _why_none(policy), lambda text: options.say(text, 0.0))
    figures: list[Figure] = [
        data.bands(con),
        *data.replicas(con, prepared, threshold),
        *future,
        data.kinds(diagnosis),
        data.week(con, prepared, threshold, document["policies"]),
        *data.quality(con, check(con, prepared)),
    ]
    options.say("drawing", 0.0)
    drawings = {f.key: draw(f) for f in figures if f.rows}
    title = "Would a second copy of a slow request help?"
    html = page.page(
        title=title,
        facts=_facts(prepared, document, first.scope.name if len(policy.policies) > 1 else None),
        opening=words.opening(diagnosis, policy),
        figures=figures,
        drawings=drawings,
        version=hedgectl.__version__,
    )
    return html, document


def draw(figure: Figure) -> tuple[str, str]:
    """A figure as (wide, narrow) SVG."""
    wide, narrow = (
        svg.svg(charts.spec(figure, narrow=small), f"{figure.key}-{'n' if small else 'w'}") for small in (False, True)
    )
    return wide, narrow


def _why_none(policy: PolicyDocument) -> str:
    """Said where no scope has a policy that could be drawn."""
    reasons = [str(r["text"]) for p in policy.policies for r in p.reasons if r.get("text")]
    because = f": {reasons[0].rstrip('.')}" if reasons else ""
    return f"No policy was tried on this log{because}."


def _facts(prepared: Prepared, document: dict[str, Any], scope: str | None) -> list[str]:
    window = document["window"]
    facts = []
    if window:
        begin, end = (str(window.get(k) or "-")[:16].replace("T", " ") for k in ("from", "to"))
        facts.append(
            f"{begin} to {end} UTC: {count(window.get('requests'))} requests, {count(window.get('attempts'))} attempts."
        )
    chosen = prepared.selection
    picked = [
        f"{name} {value}"
        for name, value in (("model", chosen.model), ("route", chosen.route), ("where", chosen.where))
        if value
    ]
    if picked:
        facts.append(f"Selected: {', '.join(picked)}.")
    if scope is not None:
        facts.append(f"Figures of what would happen speak for the slowest scope, {scope}; the others for all requests.")
    return facts
