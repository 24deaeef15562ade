"""What is known about the engines, by whom, and when that is too little for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgectl.config import Config
from hedgectl.model import OK, Fact, Fleet, Workload

# What a hosted API calls a replica is a name in front of many engines: nothing can be fitted to it.
HOSTED = frozenset({
    "openai", "azure", "azure_openai", "anthropic", "bedrock", "aws_bedrock", "aws.bedrock", "vertex_ai", "gcp.vertex_ai",
    "gemini", "gcp.gemini", "google", "cohere", "mistral", "mistral_ai", "groq", "together_ai", "fireworks_ai", "deepseek",
    "openrouter", "perplexity", "xai", "x_ai", "replicate", "ai21", "databricks", "watsonx", "cerebras", "sambanova",
    "azure_ai", "azure.ai.openai", "azure.ai.inference", "ibm.watsonx.ai",
})  # fmt: skip
DEFAULT_CHUNK = 2048
DEFAULT_BATCH = 256
GAUGE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the rows say beyond the workload: who served, and which part of the traffic the log holds."""

    providers: tuple[str, ...] = ()
    attempts: int = 0
    hedges: int = 0
    retries: int = 0
    closed_loop: bool = False
    mean_running_gauge: float | None = None  # the engine's own gauge over the same window, per replica


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no replay: a stable code, a sentence, and the share of rows where one counts."""

    code: str
    text: str
    share: float | None = None

    def note(self) -> dict[str, Any]:
        """As a note of a document."""
        return {"code": self.code, "level": "warning", "share": self.share, "text": self.text}


def fleet_of(config: Config, w: Workload, **overrides: Any) -> Fleet:
    """The fleet as configured under `[engine]`, else as the log shows it, else assumed.

    The log shows replicas by their ids, and never fewer running at once than the most it saw. `overrides` replace
    fields of the result (cancel, routing, timeout_s, cancel_lag_s).
    """
    replicas = _fact(config, "engine.replicas")
    if replicas is None:
        replicas = Fact(len(w.replicas), "log") if w.replicas else Fact(None, "assumed")
    batch = _fact(config, "engine.max_running_requests") or Fact(assumed_batch(w), "assumed")
    kv = _fact(config, "engine.kv_capacity_tokens") or Fact(None, "assumed")
    if config.get("engine.chunked_prefill"):
        budget = _fact(config, "engine.step_token_budget")
        chunk = budget or Fact(DEFAULT_CHUNK, "assumed")
    elif config.get("engine.chunked_prefill") is False:
        chunk = Fact(0, "config")
    else:
        chunk = _fact(config, "engine.step_token_budget") or Fact(0, "assumed")
    fields: dict[str, Any] = {
        "replicas": replicas,
        "max_running_requests": batch,
        "kv_capacity_tokens": kv,
        "chunk_tokens": chunk,
        "confirmed": bool(config.get("engine.confirmed", False)),
        "cancel": config.get("engine.cancel", "unknown"),
        "routing": config.get("engine.routing", "as_logged"),
    }
    return Fleet(**(fields | {k: v for k, v in overrides.items() if v is not None}))


def _fact(config: Config, name: str) -> Fact | None:
    value = config.get(name)
    return None if value is None else Fact(int(value), "config")


def most_running(w: Workload) -> int:
    """Most requests that had a first token and no end at once on one replica; 0 without first tokens."""
    most = 0
    known = np.isfinite(w.ttft_s) & np.isfinite(w.e2e_s)
    for r in range(len(w.replicas)) if w.replicas else (-1,):
        rows = known & (w.replica == r)
        first, end = np.sort((w.arrival_s + w.ttft_s)[rows]), np.sort((w.arrival_s + w.e2e_s)[rows])
        if len(first):
            most = max(most, int(np.max(np.arange(1, len(first) + 1) - np.searchsorted(end, first, side="right"))))
    return most


def assumed_batch(w: Workload) -> int:
    """Batch cap to assume where nobody says: the most seen running where requests waited there, else vLLM's 256."""
    most = most_running(w)
    waited = np.isfinite(w.ttft_s)
    if not most or not w.replicas:
        return DEFAULT_BATCH
    typical = float(np.nanmedian(w.ttft_s[waited])) if np.any(waited) else 0.0
    plateau = float(np.mean(w.ttft_s[waited] > 10.0 * max(typical, 1e-9))) > 0.02
    return most if plateau and most >= 4 else max(DEFAULT_BATCH, most)


def refusals(fleet: Fleet, w: Workload, facts: LogFacts) -> list[Refusal]:
    """All reasons against a replay; empty = go on."""
    found: list[Refusal] = []
    if not fleet.confirmed:
        found.append(Refusal("engine_not_confirmed", "a replica in a log may be a pool or a hosted API: "
                             "set [engine] confirmed = true if these replicas are single engines of yours"))  # fmt: skip
    hosted = sorted(p for p in facts.providers if p.lower() in HOSTED)
    if hosted:
        found.append(Refusal("hosted_provider", f"{', '.join(hosted)} serves others too: its load is not in this log"))
    sampled = float(np.mean(w.weight != 1.0)) if len(w) else 0.0
    if sampled > 0:
        found.append(
            Refusal("sampled_log", "rows of a sampled log stand for others that are missing: load is unknown", sampled)
        )
    if facts.mean_running_gauge is not None and len(w):
        seen = mean_running(w, fleet.replicas.value or 1)
        if seen < GAUGE_SHARE * facts.mean_running_gauge:
            found.append(Refusal("load_below_gauge", f"the log holds {seen:.1f} running requests per replica on average, the "
                                 f"engine's gauge says {facts.mean_running_gauge:.1f}: traffic is missing here",
                                 seen / facts.mean_running_gauge))  # fmt: skip
    if fleet.replicas.value is None:
        found.append(Refusal("replicas_unknown", "no replica ids in the log and no [engine] replicas = N"))
    ok = w.status == OK
    for code, missing, what in (
        ("no_first_token", ~np.isfinite(w.ttft_s) & ok, "time to the first token"),
        ("no_completion_tokens", (w.completion_tokens < 0) & ok, "number of completion tokens"),
        ("no_prompt_tokens", (w.prompt_tokens < 0) & ok, "number of prompt tokens"),
    ):
        share = float(missing.sum() / max(int(ok.sum()), 1))
        if share > 0.5:
            found.append(Refusal(code, f"{share:.0%} of the rows lack the {what}: no service law can be fitted", share))
    if int(ok.sum()) < 50:
        found.append(Refusal("too_few_requests", f"{int(ok.sum())} finished requests are too few to fit a service law"))
    return found


def mean_running(w: Workload, replicas: int) -> float:
    """Mean requests in the system per replica over the log's span (Little's law)."""
    span = float(np.max(w.arrival_s, initial=0.0) - np.min(w.arrival_s, initial=0.0)) if len(w) else 0.0
    return float(np.nansum(w.e2e_s)) / max(span, 1e-9) / max(replicas, 1)


def sources(fleet: Fleet) -> Mapping[str, str]:
    """Where each engine fact comes from, as `engine.source` of simulation.v1."""
    return {
        "replicas": fleet.replicas.source,
        "max_running_requests": fleet.max_running_requests.source,
        "kv_capacity_tokens": fleet.kv_capacity_tokens.source,
        "chunk_tokens": fleet.chunk_tokens.source,
    }
