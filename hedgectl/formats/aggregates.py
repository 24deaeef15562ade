"""Refuses what is about many requests at once (metrics pages, percentiles, summaries), with the flag that writes single requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hedgectl import engine_facts
from hedgectl.errors import InputError

if TYPE_CHECKING:
    from hedgectl.formats.detect import Sample

_METRIC_LINE = re.compile(r"^(# (HELP|TYPE|EOF|UNIT)\b|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})? [-+0-9.eEinfNa]+( \d+)?$)")
_QUANTILE = re.compile(
    r"(^|[_.\-])(p|q|perc|percentile_?)(50|75|90|95|98|99|999|99[._]9|100)([_.\-]?(ms|s|us|seconds|latency))?$|quantile",
    re.I,
)
_COUNTER = re.compile(r"(^|_)(count|requests|samples|total|n|num_requests|bucket|le|sum)$", re.I)


def refuse_aggregates(sample: Sample, *, where: str | None = None) -> None:
    """Raises InputError for a metrics page or for percentiles that were computed by somebody else."""
    lines = sample.lines[:200]
    if sample.container == "text" and lines and sum(bool(_METRIC_LINE.match(x)) for x in lines) > len(lines) * 0.8:
        wanted = engine_facts.per_request_hint(x for x in lines if not x.startswith("#"))
        raise InputError(
            "this is a metrics page: counters and histograms of many requests, not requests",
            where=where,
            hint=f"for single requests: {wanted or 'read the log of the gateway or the spans of the engine'}. "
            "hedgectl config engine --from METRICS takes capacities from this page",
        )
    if not sample.records:
        return
    names = list(dict.fromkeys(name for r in sample.records for name in r))
    quantiles = [n for n in names if _QUANTILE.search(n)]
    if len(quantiles) >= 3 or (len(quantiles) == 2 and any(_COUNTER.search(n) for n in names)):
        raise InputError(
            f"these are percentiles of many requests ({', '.join(quantiles[:4])}), not requests: they cannot be averaged or recombined",
            where=where,
            hint="export one row a request, or histogram buckets with counts",
        )


_SUMMARY = re.compile(r"^(mean|median|avg|average|std|p\d\d?)_|_(mean|median|avg|std|p\d\d?)(_|$)", re.I)
_SUMMARY_HINTS = (
    (
        r"\bMLLOG\b|(?i:mlperf results summary)",
        "LoadGen writes single requests with enable_trace into mlperf_log_trace.json only",
    ),
    (
        r'"backend": *"(sglang|sglang-oai|trt)',
        "run bench_serving with --output-details: it adds ttfts, itls and errors, one entry a request",
    ),
    (
        r'"(num_prompts|request_throughput|total_token_throughput)"',
        "run vllm bench serve with --save-result --save-detailed: it adds ttfts, itls and start times",
    ),
    (r"Avg prompt throughput: [\d.]+ tokens/s", "these are vLLM's statistics; " + engine_facts.HINTS["vllm:"]),
    (r"Decode batch[.,]? #running-req", "these are SGLang's statistics; " + engine_facts.HINTS["sglang:"]),
)


def refuse_summary(sample: Sample, *, where: str | None = None) -> None:
    """Raises InputError for the summary of a load tool or an engine's statistics lines, with the flag that writes single requests."""
    text = "\n".join(sample.lines[:200])
    names = [n for n in dict.fromkeys(name for r in sample.records for name in r) if _SUMMARY.search(n)]
    hint = next((words for pattern, words in _SUMMARY_HINTS if re.search(pattern, text)), None)
    if len(names) >= 3 or (hint is not None and sample.container in ("text", "csv")):
        said = f" ({', '.join(names[:3])})" if names else ""
        raise InputError(
            f"this is a summary of many requests{said}, not requests",
            where=where,
            hint=hint or "export one row a request",
        )
