"""Environment variables that ``sh`` and dotenv readers take as the same texts, whatever the texts hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from hedgectl.emitters._plan import Plan, plan, rule_text
from hedgectl.emitters._seam import CARRIES_ALL, Lint, Loss, Unreadable
from hedgectl.emitters._text import expires_at, header, number, window_texts
from hedgectl.policy import Hedge, PolicyDocument, seconds

TITLE: Final = "environment variables (dotenv and sh)"
SUFFIX: Final = ".env"
TRAITS: Final = CARRIES_ALL

_BARE: Final = re.compile(r"[A-Za-z0-9_./:,@%+-]+")
_LINE: Final = re.compile(r"(?:export )?[A-Za-z_][A-Za-z0-9_]*=")


def supports(policy: PolicyDocument) -> list[Loss]:
    """Nothing is lost but the plain spelling of texts that ``sh`` and dotenv cannot both read."""
    return [
        Loss(each.scope.name, f"scope.{part}", text, f"percent-encoded: {quote(text, safe=' ')}")
        for each in policy.policies
        for part, text in (("model", each.scope.model), ("route", each.scope.route))
        if text is not None and _encoded(text) is None
    ]


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """``HEDGE_...`` for one scope; ``HEDGE_1_...``, ``HEDGE_2_...`` for several."""
    plans = [plan(each, TRAITS) for each in policy.policies]
    pairs = [
        ("HEDGE_REVISION", policy.revision),
        ("HEDGE_EXPIRES_AT", expires_at(policy)),
    ]
    if len(plans) == 1:
        pairs += _scope(plans[0], "HEDGE_")
    else:
        # a reader that only knows the plain names must not hedge everything by the first scope's policy
        pairs += [("HEDGE_ENABLED", "false"), ("HEDGE_SCOPES", str(len(plans)))]
        for index, each in enumerate(plans, 1):
            pairs += _scope(each, f"HEDGE_{index}_")
    return header(policy, "env", "#") + "".join(f"{name}={_value(text)}\n" for name, text in pairs)


def check(text: str) -> list[Lint]:
    """Names, and values that ``sh`` would expand or run."""
    lints: list[Lint] = []
    values: dict[str, str] = {}
    for row, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            raise Unreadable(f"line {row} is not NAME=VALUE")
        name, value = line.removeprefix("export ").split("=", 1)
        values[name] = value
        if value[:1] != "'" and re.search(r"[$`]", value):
            lints.append(Lint("expanded", "error", f"line {row}", f"sh would expand the value of {name}"))
        elif value[:1] not in ("'", '"') and not re.fullmatch(r"[^\s;&|<>()'\"\\*?\[#~]*", value):
            lints.append(Lint("unquoted", "error", f"line {row}", f"the value of {name} needs quotes"))
    if "HEDGE_ENABLED" not in values:
        lints.append(Lint("no_kill_switch", "warning", "HEDGE_ENABLED", "HEDGE_ENABLED is not set"))
    return lints


def _scope(each: Plan, prefix: str) -> list[tuple[str, str]]:
    scope = each.scope
    pairs = [("ENABLED", "true" if each.on else "false")]
    named = (("MODEL", scope.model), ("ROUTE", scope.route), ("SIZE_CLASS", scope.size_class))
    pairs += [(name, text) for name, text in named if text is not None]
    hedge = each.policy.hedge
    if each.on and hedge is not None:
        pairs += _hedge(each, hedge)
    return [(prefix + name, text) for name, text in pairs]


def _hedge(each: Plan, hedge: Hedge) -> list[tuple[str, str]]:
    policy = each.policy
    pairs = [
        ("SIGNAL", hedge.trigger),
        ("AFTER_MS", str(each.delay_ms)),
        ("MAX_ATTEMPTS", str(each.extra + 1)),
    ]
    if hedge.budget is not None:
        pairs += [
            ("BUDGET_PERCENT", str(number(hedge.budget.ratio * 100))),
            ("BUDGET_BURST", str(hedge.budget.burst)),
        ]
        if hedge.budget.max_concurrent is not None:
            pairs.append(("BUDGET_MAX_CONCURRENT", str(hedge.budget.max_concurrent)))
    if each.total_ms is not None:
        pairs.append(("TOTAL_TIMEOUT_MS", str(each.total_ms)))
    if each.attempt_ms is not None:
        pairs.append(("PER_ATTEMPT_TIMEOUT_MS", str(each.attempt_ms)))
    goes = hedge.target
    flags = [name for name in ("different_replica", "different_pool", "healthy_only") if getattr(goes, name)]
    pairs += [("TARGET", ",".join([*flags, goes.choose])), ("COMMIT", hedge.commit), ("LOSER", hedge.cancel.loser)]
    if policy.eligible:
        pairs.append(("ONLY_IF", "; ".join(map(rule_text, policy.eligible))))
    if policy.windows_utc:
        pairs.append(("WINDOWS_UTC", "; ".join(window_texts(policy.windows_utc))))
    if policy.suppress_when:
        pairs.append(("SUPPRESS_WHEN", "; ".join(f"{s.signal} {s.op} {s.value:g}" for s in policy.suppress_when)))
    if policy.experiment is not None:
        block = seconds(policy.experiment.block)
        pairs.append(("EXPERIMENT", f"{policy.experiment.kind} block_s={block} seed={policy.experiment.seed}"))
    return pairs


def _value(text: str) -> str:
    found = _encoded(text)
    return _encoded(quote(text, safe=" ")) or "''" if found is None else found


def _encoded(text: str) -> str | None:
    """The text as ``sh`` and dotenv both read it; None if no spelling serves both."""
    if not text.isprintable():
        return None
    if _BARE.fullmatch(text):
        return text
    if not re.search(r"['\\]|\$\{", text):
        return f"'{text}'"
    # dotenv keeps the backslash of \$ and \`, sh needs it: no spelling serves both
    if not re.search(r"[$`]", text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return None
