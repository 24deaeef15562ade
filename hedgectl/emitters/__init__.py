"""Writes a policy down for the systems that hedge: one file a target, found in this folder by its name.

To add a target, add its file (see ``_seam.py``) and one golden output; nothing else is edited.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hedgectl.emitters._cannot import BEHIND, CANNOT_HEDGE, IN_FRONT
from hedgectl.emitters._plan import refuse_late_copy, refuse_unseen_trigger
from hedgectl.emitters._seam import Lint, Loss, Target, Traits, Unreadable
from hedgectl.errors import HedgectlError, InputError, NotEnoughData, UsageError
from hedgectl.policy import PolicyDocument

__all__ = [
    "CANNOT_HEDGE",
    "Emitted",
    "Lint",
    "Loss",
    "Target",
    "Traits",
    "catalogue",
    "check",
    "check_document",
    "emit",
    "list_document",
    "target",
]


@dataclass(frozen=True, slots=True)
class Emitted:
    """A written configuration, what it could not say, and what its runtime might do in silence.

    ``refusal`` is set where it must not be used as it is (exit 3); the text is there all the same.
    """

    target: str
    form: str
    text: str
    losses: tuple[Loss, ...]
    lints: tuple[Lint, ...]
    refusal: NotEnoughData | None

    def to_document(self, document: PolicyDocument) -> dict[str, Any]:
        """The ``emit.v1`` document."""
        return {
            "schema": "hedgectl/emit.v1",
            "as_of": document.as_of,
            "policy_id": document.policy_id(),
            "target": self.target,
            "form": self.form,
            "text": self.text,
            "losses": [loss.to_document() for loss in self.losses],
            "lints": [lint.to_document() for lint in self.lints],
            "refused": None if self.refusal is None else self.refusal.what,
            "notes": [],
        }


@cache
def catalogue() -> dict[str, Target]:
    """All targets of this folder by name, sorted."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    return {name: _load(name) for name in names}


def _load(name: str) -> Target:
    module = importlib.import_module(f"hedgectl.emitters.{name}")
    return Target(
        name=name,
        title=module.TITLE,
        suffix=module.SUFFIX,
        traits=module.TRAITS,
        options=getattr(module, "OPTIONS", {}),
        forms=getattr(module, "FORMS", ("",)),
        supports=module.supports,
        render=module.render,
        check=getattr(module, "check", None),
    )


def target(name: str) -> Target:
    """The target of that name. Raises UsageError with the nearest name, or with the way around one that cannot hedge."""
    found = catalogue().get(name)
    if found is not None:
        return found
    for cannot in CANNOT_HEDGE:
        if name in cannot.names:
            raise UsageError(
                f"{cannot.title} cannot hedge: {cannot.why}",
                where=f"--to {name}",
                hint=f"{cannot.around} (hedgectl emit --list)",
            )
    near = difflib.get_close_matches(name, [*catalogue(), *(n for c in CANNOT_HEDGE for n in c.names)], 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"no target named {name}", where="--to", hint=f"{hint}there are {', '.join(catalogue())}")


def emit(
    document: PolicyDocument,
    name: str,
    *,
    options: Mapping[str, str] | None = None,
    form: str | None = None,
    strict: bool = False,
) -> Emitted:
    """The configuration of ``name`` for a policy, linted as its runtime would never lint it.

    Raises NotEnoughData (exit 3) where a hedge waits for something the target cannot see, UsageError for an unknown
    target, option or form. A refusal for a lost need of the stability rule, or by ``strict``, is in the result.
    """
    to = target(name)
    for policy in document.policies:
        refuse_unseen_trigger(policy, to.traits, name)
        refuse_late_copy(policy, to.traits, name)
    chosen = _chosen_form(to, form)
    losses = tuple(to.supports(document))
    text = to.render(document, _chosen_options(to, options or {}), chosen)
    lints = tuple(check(text, name)) if to.check is not None and chosen in ("", to.forms[0], "full") else ()
    broken = [lint for lint in lints if lint.level == "error"]
    if broken:
        raise HedgectlError(
            f"the configuration for {name} would not do what it says: {broken[0].text}",
            where=broken[0].where,
            hint="this is a fault of hedgectl; please report it with the policy",
        )
    return Emitted(name, chosen, text, losses, lints, _refusal(to, losses, strict))


def _refusal(to: Target, losses: tuple[Loss, ...], strict: bool) -> NotEnoughData | None:
    needed = [loss for loss in losses if loss.needed]
    if needed:
        return NotEnoughData(
            f"{to.name} cannot watch {needed[0].field.removeprefix('suppress_when.')}, and without it the policy is not "
            "stable at the busiest hour",
            where=f"policies: {needed[0].scope}: {needed[0].field}",
            hint=f"hedgectl recommend --for {to.traits.recommend_for} looks for a policy that is stable without it",
        )
    if strict and losses:
        return NotEnoughData(
            f"{to.name} cannot express {len(losses)} parts of the policy, and --strict was given",
            where=f"policies: {losses[0].scope}: {losses[0].field}",
            hint="without --strict the nearest is written",
        )
    return None


def check(text: str, name: str) -> list[Lint]:
    """Lints a configuration that someone wrote. Raises InputError if it is not even the target's language."""
    to = target(name)
    if to.check is None:
        raise UsageError(f"hedgectl has no checks for {name}", hint="its own parser says all there is to say")
    try:
        return to.check(text)
    except Unreadable as error:
        raise InputError(f"this is not a file for {name}: {error}", hint=f"expected {to.title}") from None


def _chosen_form(to: Target, form: str | None) -> str:
    if form is None:
        return to.forms[0]
    if form not in to.forms:
        known = ", ".join(each for each in to.forms if each)
        raise UsageError(
            f"{to.name} has no form {form}", hint=f"there is {known}" if known else f"{to.name} has only one form"
        )
    return form


def _chosen_options(to: Target, given: Mapping[str, str]) -> Mapping[str, str]:
    for key in given:
        if key not in to.options:
            near = difflib.get_close_matches(key, to.options, 1)
            known = ", ".join(to.options) or "none"
            raise UsageError(
                f"{to.name} has nothing named {key} to set",
                where=f"--set {key}=...",
                hint=f"did you mean {near[0]}?" if near else f"there are: {known}",
            )
    return {**to.options, **given}


def list_document() -> dict[str, Any]:
    """The ``emit_list.v1`` document: what each target sees and has, and what cannot hedge."""
    return {
        "schema": "hedgectl/emit_list.v1",
        "as_of": None,
        "targets": [
            {
                "target": to.name,
                "title": to.title,
                "hedges": to.traits.hedges,
                "sees": sorted(to.traits.sees) if to.traits.hedges else [],
                "budget": to.traits.budget and to.traits.hedges,
                "signals": sorted(to.traits.signals),
                "forms": [form for form in to.forms if form],
                "settings": dict(to.options),
                "checks": to.check is not None,
            }
            for to in catalogue().values()
        ],
        "cannot_hedge": [
            {"names": list(each.names), "title": each.title, "why": each.why, "nearest": each.nearest}
            for each in CANNOT_HEDGE
        ],
        "ways_around": [IN_FRONT, BEHIND],
        "notes": [],
    }


def check_document(name: str, lints: list[Lint]) -> dict[str, Any]:
    """The ``emit_check.v1`` document."""
    return {
        "schema": "hedgectl/emit_check.v1",
        "as_of": None,
        "target": name,
        "lints": [lint.to_document() for lint in lints],
        "notes": [],
    }
