"""Colours of the report: each has a light and a dark form; a chart is drawn once and recoloured by style sheet."""

from __future__ import annotations

from typing import Final

# light -> dark. Charts use the light ones; the keys must differ, since the style sheet finds them by value.
INK: Final = "#1b2530"
MUTED: Final = "#556270"
GRID: Final = "#dde2e8"
AXIS: Final = "#9aa5b1"
ON_FILL: Final = "#fffffe"
EDGE: Final = "#fffffd"
PARTS: Final = {
    "queue": "#c8374a",
    "prefill": "#d98b1f",
    "unsplit": "#8f6547",
    "decode": "#2b6ea6",
    "tool wait": "#7757a8",
    "other": "#7d8792",
}
ARMS: Final = {"as is": "#4a5561", "better routed": "#0b7a5e", "hedged": "#1f5fd0"}
LEVELS: Final = ("#edf0f3", "#fbe3ca", "#f8bd85", "#ee8e43", "#c95c17", "#7c2f0c")
ACCENT: Final = "#b3261e"
BAR: Final = "#2c6fa7"

DARK: Final = {
    INK: "#e8ecf1",
    MUTED: "#a9b4c0",
    GRID: "#2c3641",
    AXIS: "#5d6a78",
    ON_FILL: "#0e141a",
    EDGE: "#12181f",
    PARTS["queue"]: "#ff7d8c",
    PARTS["prefill"]: "#ffbf5e",
    PARTS["unsplit"]: "#cfa283",
    PARTS["decode"]: "#6cb2ee",
    PARTS["tool wait"]: "#bda0f0",
    PARTS["other"]: "#a3adb8",
    ARMS["as is"]: "#c3ccd6",
    ARMS["better routed"]: "#3fd0a6",
    ARMS["hedged"]: "#7db0ff",
    LEVELS[0]: "#1e2730",
    LEVELS[1]: "#463223",
    LEVELS[2]: "#77491f",
    LEVELS[3]: "#b4691f",
    LEVELS[4]: "#ee9a45",
    LEVELS[5]: "#ffdcae",
    ACCENT: "#ff8a80",
    BAR: "#6bb1ed",
}


def dark_rules() -> str:
    """CSS that gives every mark of a chart its dark colour."""
    return "\n".join(
        f'svg [fill="{light}"]{{fill:{dark}}}svg [stroke="{light}"]{{stroke:{dark}}}' for light, dark in DARK.items()
    )
