"""Where the real systems are, the policies they are tried with, and files written for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from policy_documents import document, full, hedging

from hedgectl import emitters, policy

NASTY = 'x\'; DROP TABLE requests; -- ${HOME} "q" \\ {{ .x }} 模型'
WHOLE = policy.Rule("streamed", "=", False)

# every shape that the proxies are given: each must be accepted, and what is off must be accepted too
POLICIES: Mapping[str, policy.PolicyDocument] = {
    "small": document(hedging()),
    "full": policy.parse(full()),
    "off": document(hedging(decision="do_not_hedge")),
    "no_data": document(policy.ScopePolicy(policy.Scope("chat"), "not_enough_data")),
    "no_deadline": document(hedging(deadline=None)),
    "no_budget": document(hedging(budget=None)),
    "three_attempts": document(hedging(max_attempts=3)),
    "small_budget": document(hedging(budget=policy.Budget(0.001, 1))),
    "whole_answers": document(hedging("response", eligible=(WHOLE,))),
    "rules": document(
        hedging(
            eligible=(
                WHOLE,
                policy.Rule("tools_offered", "=", False),
                policy.Rule("segment", "not_in", ("free", "it's")),
                policy.Rule("route", "not_in", ("/v1/tools", "/v1/batch/")),
                policy.Rule("request_bytes", "<=", 2_000_000.0),
            )
        )
    ),
    "scopes": document(
        hedging(scope=policy.Scope(NASTY, "/v1/chat")),
        hedging(scope=policy.Scope(NASTY, "/v1/chat", "large"), delay_ms=900.0),
        hedging(scope=policy.Scope("code", "not a path")),
        hedging(scope=policy.Scope("code"), delay_ms=700.0),
        hedging(scope=policy.Scope("embed"), decision="do_not_hedge"),
        hedging(scope=policy.Scope(), decision="do_not_hedge"),
    ),
}


def system(name: str) -> str:
    """The path that ``.ci/real`` gives for a system. Elsewhere the test is skipped; under ``.ci/real`` it fails."""
    found = os.environ.get(name)
    if found:
        return found
    if os.environ.get("HEDGECTL_REAL") == "1":
        pytest.fail(f"{name} is not set, although HEDGECTL_REAL=1 promises the real systems")
    pytest.skip(f"needs {name}, which .ci/real installs")


def write(found: policy.PolicyDocument, target: str, path: Path, form: str | None = None, **options: str) -> Path:
    """The emitted text in a file."""
    path.write_text(emitters.emit(found, target, form=form, options=options).text, encoding="utf-8")
    return path


def run(*command: str | Path, cwd: Path | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A finished process with its output as text."""
    texts = [str(part) for part in command]
    return subprocess.run(texts, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
