"""The policy document: frozen values, reading with clear complaints, identity, difference, plain words."""

from __future__ import annotations

from hedgectl.policy.difference import diff
from hedgectl.policy.document import (
    ELIGIBLE_FIELDS,
    SIGNALS,
    TRIGGERS,
    Budget,
    Cancel,
    Deadline,
    Delay,
    DelayRule,
    Delays,
    Experiment,
    Goal,
    Hedge,
    PolicyDocument,
    Rule,
    Scope,
    ScopePolicy,
    Suppress,
    Target,
    Window,
    scope_document,
)
from hedgectl.policy.reader import seconds
from hedgectl.policy.reading import parse, parse_scope
from hedgectl.policy.words import explain, sentence

__all__ = [
    "ELIGIBLE_FIELDS",
    "SIGNALS",
    "TRIGGERS",
    "Budget",
    "Cancel",
    "Deadline",
    "Delay",
    "DelayRule",
    "Delays",
    "Experiment",
    "Goal",
    "Hedge",
    "PolicyDocument",
    "Rule",
    "Scope",
    "ScopePolicy",
    "Suppress",
    "Target",
    "Window",
    "diff",
    "explain",
    "parse",
    "parse_scope",
    "scope_document",
    "seconds",
    "sentence",
]
