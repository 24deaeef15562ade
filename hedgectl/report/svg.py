"""Owns the drawing libraries (altair, vl-convert): is there one, and a chart as SVG text."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

from hedgectl.errors import HedgectlError

VEGA_LITE = "6.4"  # what altair 6 writes
_SIZE = re.compile(r'^<svg [^>]*?class="marks" width="([\d.]+)" height="([\d.]+)"')
_REFERENCE = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')


def require() -> None:
    """Raises HedgectlError with the way to install them where the drawing libraries are missing."""
    missing = [name for name in ("altair", "vl_convert") if importlib.util.find_spec(name) is None]
    if missing:
        raise HedgectlError(
            "the report is drawn with altair and vl-convert, which are not installed here",
            where=", ".join(missing),
            hint="pip install 'hedgectl[report]'; every number of the report is in -o json of the other commands too",
        )


def svg(spec: dict[str, Any], name: str) -> str:
    """A Vega-Lite chart as an SVG element without fixed size. `name` keeps its ids apart from those of other charts.

    The element is hidden from screen readers: its figure says what it shows, and its table has the numbers.
    """
    import vl_convert

    text = str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE))
    found = _SIZE.match(text)
    width = found.group(1) if found else "700"
    text = _REFERENCE.sub(lambda m: f"{m.group(1)}{name}-{m.group(2)}", text)
    text = re.sub(r' (?:aria-[a-z]+|role|xmlns(?::xlink)?|version|pointer-events)="[^"]*"', "", text)
    text = re.sub(r'<svg class="marks" width="[^"]*" height="[^"]*"', "<svg", text, count=1)
    return text.replace("<svg", f'<svg aria-hidden="true" focusable="false" style="max-width:{float(width):.0f}px"', 1)
