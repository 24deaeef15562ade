"""Refuses what is about many requests at once (metrics pages, percentiles, summaries), with the flag that writes single requests."""

from __future__ import annotations

import re

from hedgectl import engine_facts
from hedgectl.errors import InputError
from hedgectl.formats.sample import Sample

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


_OTHER_FILES = (
    (
        r'"rootServiceName"[\s\S]*"durationMs"',
        "these are hits of a search, not traces",
        "fetch each trace: GET /api/v2/traces/TRACE_ID, one answer a line",
    ),
    (
        r'"project_id"[\s\S]*"spans": ?null',
        "these are traces without their spans",
        "GET /v1/projects/NAME/spans, or /v1/projects/NAME/spans/otlpv1, page by page",
    ),
    (
        r'"aiperf_version"|NVIDIA AIPerf \|',
        "this is AIPerf's summary of many requests",
        "read profile_export.jsonl beside it: aiperf profile --profile-export-level records",
    ),
    (
        r'"load_summary"[\s\S]*"schedule_delay"',
        "this is inference-perf's summary of many requests",
        "report: {request_lifecycle: {per_request: true}} writes per_request_lifecycle_metrics.json",
    ),
    (
        r"Serving Benchmark Result =",
        "this is what a load tool prints: a summary of many requests",
        "run it with --save-result --save-detailed (vLLM) or --output-details (SGLang)",
    ),
    (
        r'"inference_stats"',
        "these are Triton's statistics: counters of many requests",
        "for single requests: " + engine_facts.HINTS["nv_"],
    ),
    (
        r"(?m)^(cluster|http|listener|server)\.[\w.]+: \d+$",
        "these are Envoy's counters, not requests",
        "for single requests: " + engine_facts.HINTS["envoy_"],
    ),
    (
        r"(?mi)^x-(inference|queue|compute)-time: ",
        "these are the headers of answers",
        "for single requests: " + engine_facts.HINTS["tgi_"],
    ),
    (
        r'"Datapoints": ?\[[\s\S]*"(SampleCount|Average|ExtendedStatistics)"',
        "these are CloudWatch's statistics of many requests",
        "single requests are in the log of the model or the gateway: Bedrock's invocation log, the balancer's access log",
    ),
    (
        r'"resultType": ?"(matrix|vector|scalar)"',
        "this is an answer of Prometheus: figures of many requests",
        "for single requests: read the log of the gateway or the spans of the engine",
    ),
    (
        r'"slots": ?\[[\s\S]*"is_processing"',
        "these are states of slots, not requests",
        "for single requests: " + engine_facts.HINTS["llamacpp:"],
    ),
    (
        r"(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[\w+\] \d+#\d+:",
        "this is nginx's error log",
        "requests stand in the access log: log_format with $request_time and $upstream_response_time",
    ),
    (
        r"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\]\[\d+\]\[\w+\]\[\w+\]",
        "this is Envoy's own log, not its access log",
        "for single requests: " + engine_facts.HINTS["envoy_"],
    ),
    (
        r'"component_name": ?"controller"',
        "this is the log of Ray Serve's controller",
        "for single requests: " + engine_facts.HINTS["serve_"],
    ),
    (
        r'\bContextTokens,GeneratedTokens\b|"input_length"[\s\S]*"output_length"[\s\S]*"hash_ids"',
        "these are arrivals and lengths without a duration",
        "an answer needs to be timed: a log with the start and the end of each request",
    ),
)
"""Files that stand beside requests: what shows them, what they are, where the requests are."""


def refuse_summary(sample: Sample, *, where: str | None = None) -> None:
    """Raises InputError for the summary of a load tool, an engine's statistics and what else is no log of requests, with the way to one."""
    text = "\n".join(sample.lines[:200])
    for pattern, what, way in _OTHER_FILES:
        if re.search(pattern, text):
            raise InputError(what, where=where, hint=way)
    fields = list(dict.fromkeys(name for r in sample.records for name in r))
    names = [n for n in fields if _SUMMARY.search(n)]
    counted = len(names) == 2 and any(_COUNTER.search(n) for n in fields)
    hint = next((words for pattern, words in _SUMMARY_HINTS if re.search(pattern, text)), None)
    if len(names) >= 3 or counted or (hint is not None and sample.container in ("text", "csv")):
        said = f" ({', '.join(names[:3])})" if names else ""
        raise InputError(
            f"this is a summary of many requests{said}, not requests",
            where=where,
            hint=hint or "export one row a request",
        )
