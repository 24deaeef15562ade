"""What a target is to the rest of hedgectl: its abilities as data, and the three functions of its file.

A target is one file in this folder. It states ``TITLE``, ``SUFFIX`` (of its files), ``TRAITS``, optionally ``OPTIONS``
(names that stand in its output and that a user may set) and ``FORMS`` (other texts it can write, the default first),
and has ``supports(policy)``, ``render(policy, options, form)`` and optionally ``check(text)``. All pure: no clock, no
I/O, no log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hedgectl.policy import SIGNALS, TRIGGERS, PolicyDocument
from hedgectl.policy.document import CHOICES


@dataclass(frozen=True, slots=True)
class Loss:
    """Something in the policy that a target cannot do, and the nearest it does instead.

    ``needed``: the stability rule of the policy rests on it, so a configuration without it must not be used.
    """

    scope: str
    field: str
    wanted: str
    nearest: str
    needed: bool = False

    def to_document(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "field": self.field,
            "wanted": self.wanted,
            "nearest": self.nearest,
            "needed": self.needed,
        }


@dataclass(frozen=True, slots=True)
class Lint:
    """Something in a configuration that its runtime accepts and then does not do. ``level``: error | warning."""

    code: str
    level: str
    where: str
    text: str

    def to_document(self) -> dict[str, Any]:
        return {"code": self.code, "level": self.level, "where": self.where, "text": self.text}


@dataclass(frozen=True, slots=True)
class Traits:
    """What a target can do. The common losses follow from these; a target adds its own."""

    sees: frozenset[str]  # triggers whose clock it has
    whole_answers: bool = False  # its header clock also serves `response` where no answer is streamed
    hedges: bool = True  # False: it only watches
    budget: bool = True
    budget_burst: bool = False
    budget_in_flight: bool = False
    attempt_timeout: bool = True
    max_attempts: int = 5
    other_replica: bool = False
    other_pool: bool = False
    healthy_only: bool = False
    chooses: frozenset[str] = frozenset({"as_routed"})
    rules: frozenset[str] | None = frozenset()  # fields it can test by itself; None = all
    rules_nearest: str = "not tested: keep such requests away from it"
    windows: bool = False
    experiment: bool = False
    expires: bool = False
    signals: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()  # parts of a scope it can tell apart
    scopes_nearest: str = "one entry for all, as careful as the most careful of them"
    recommend_for: str = ""  # what `hedgectl recommend --for` calls it
    clock_nearest: str = "set from outside"  # how windows and experiments are followed all the same


# our own formats carry the whole policy; whoever reads them acts on it
CARRIES_ALL: Final = Traits(
    sees=frozenset(TRIGGERS),
    budget_burst=True,
    budget_in_flight=True,
    other_replica=True,
    other_pool=True,
    healthy_only=True,
    chooses=frozenset(CHOICES),
    rules=None,
    windows=True,
    experiment=True,
    expires=True,
    signals=frozenset(SIGNALS),
    scopes=frozenset({"model", "route", "size_class"}),
)


@dataclass(frozen=True, slots=True)
class Target:
    """One target, read from its module."""

    name: str
    title: str
    suffix: str
    traits: Traits
    options: Mapping[str, str]
    forms: tuple[str, ...]
    supports: Callable[[PolicyDocument], list[Loss]]
    render: Callable[[PolicyDocument, Mapping[str, str], str], str]
    check: Callable[[str], list[Lint]] | None


class Unreadable(Exception):
    """A file given to ``check`` that is not even the language of its target."""
