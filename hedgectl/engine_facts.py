"""Batch cap and cache size of an engine from its own metrics page (or startup log), each with where it was read and what is missing.

Sources: ``vllm:cache_config_info`` and ``vllm:num_requests_running`` of vLLM, ``sglang:max_total_num_tokens`` and kin of SGLang,
``trtllm_*`` of TensorRT-LLM, ``llamacpp:*`` of llama.cpp, ``tgi_batch_*`` of TGI, and the settings that vLLM prints at its start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgectl.errors import InputError

KEYS = (
    "max_running_requests",
    "kv_capacity_tokens",
    "step_token_budget",
    "chunked_prefill",
    "prefix_cache",
    "mean_running_requests",
)
"""Keys of the section ``[engine]`` that a page may answer, in the order they are printed."""

_FLAGS = {
    "vllm": "--max-num-seqs (256 or more by default; the page does not say)",
    "sglang": "--max-running-requests",
    "trtllm": "--max_batch_size",
    "llamacpp": "--parallel",
    "tgi": "--max-batch-total-tokens and --max-concurrent-requests",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of ``[engine]``; ``source`` names the metric and the arithmetic, ``value`` is tokens, requests or a truth value."""

    key: str
    value: int | float | bool
    source: str


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What one page says. ``missing`` maps a key that it does not answer to the flag or place that does."""

    engine: str
    facts: tuple[Fact, ...]
    missing: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def values(self) -> dict[str, int | float | bool]:
        """Key -> value of what was found."""
        return {f.key: f.value for f in self.facts}

    def toml(self) -> str:
        """A ready ``[engine]`` block; what is missing stands in it as a comment."""
        lines = ["[engine]"]
        for key in KEYS:
            fact = next((f for f in self.facts if f.key == key), None)
            if fact is not None:
                value = (
                    str(fact.value).lower()
                    if isinstance(fact.value, bool)
                    else f"{fact.value:g}"
                    if isinstance(fact.value, float)
                    else fact.value
                )
                lines.append(f"{f'{key} = {value}':<32}# {fact.source}")
            elif key in self.missing:
                lines.append(f"{f'# {key} = ?':<32}# {self.missing[key]}")
        return "\n".join([*lines, *(f"# {note}" for note in self.notes)]) + "\n"

    def document(self) -> dict[str, Any]:
        """The facts as a document."""
        return {
            "schema": "hedgectl/engine_facts.v1",
            "engine": self.engine,
            "facts": [{"key": f.key, "value": f.value, "source": f.source} for f in self.facts],
            "missing": [{"key": k, "hint": v} for k, v in self.missing.items()],
            "notes": list(self.notes),
        }


Series = tuple[str, dict[str, str], float]
_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+([-+0-9.eEinfNa]+)(?:\s+\d+)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def series(text: str) -> list[Series]:
    """(name, labels, value) of each sample line of a Prometheus page, in order; comments and other lines are left out."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match is None:
            continue
        try:
            found.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
        except ValueError:
            continue
    return found


def read(path: Path | str) -> EngineFacts:
    """The facts of a page saved to ``path``. Raises InputError for a file that cannot be read or that no engine wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        raise InputError(
            f"cannot read the metrics: {fault.strerror or fault}",
            where=str(path),
            hint="curl -s http://ENGINE:8000/metrics > metrics.txt",
        ) from fault
    return parse(text, where=str(path))


def parse(text: str, *, where: str | None = None) -> EngineFacts:
    """The facts of a page (or of a startup log of vLLM). Raises InputError if no engine's names are in it."""
    rows = series(text)
    for engine, prefix, reader in _READERS:
        own = [r for r in rows if r[0].startswith(prefix)]
        if own:
            return _finish(engine, list(reader(own)), own)
    started = list(_vllm_log(text))
    if started:
        return _finish("vllm", started, [])
    raise InputError(
        "no engine that is known wrote this page",
        where=where,
        hint="save the engine's own page: curl -s http://ENGINE:8000/metrics (llama.cpp with --metrics, SGLang with --enable-metrics, "
        "TensorRT-LLM at /prometheus/metrics)",
    )


def _finish(engine: str, facts: list[Fact], rows: list[Series]) -> EngineFacts:
    first = {f.key: f for f in reversed(facts)}
    missing = {}
    if "max_running_requests" not in first:
        missing["max_running_requests"] = f"look at {_FLAGS[engine]}{_full_batch(rows)}"
    if "kv_capacity_tokens" not in first:
        missing["kv_capacity_tokens"] = "the page does not say; the engine's startup log does"
    notes = []
    cores = {labels["engine"] for _, labels, _ in rows if "engine" in labels and labels["engine"].isdigit()}
    if engine == "vllm" and len(cores) > 1:
        notes.append(f"{len(cores)} engine cores behind one server: the values are of one core")
    return EngineFacts(engine, tuple(first[k] for k in KEYS if k in first), missing, tuple(notes))


_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting")
_USAGE = ("vllm:kv_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization")


def _full_batch(rows: list[Series]) -> str:
    """A clue to the batch cap, not a fact: requests that wait while the cache has room wait for a place in the batch."""
    running, waiting, usage = _value(rows, *_RUNNING), _value(rows, *_WAITING), _value(rows, *_USAGE)
    if running and waiting and usage and waiting[1] > 0 and running[1] > 0 and usage[1] < 0.9:
        return f"; {running[1]:.0f} ran while {waiting[1]:.0f} waited and the cache was {usage[1]:.0%} full, so it may be {running[1]:.0f}"
    return ""


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None


def _value(rows: Iterable[Series], *names: str) -> tuple[str, float] | None:
    for name, _, value in rows:
        if name in names and value == value and value >= 0:
            return name, value
    return None


def _vllm(rows: list[Series]) -> Iterable[Fact]:
    labels = next((labels for name, labels, _ in rows if name == "vllm:cache_config_info"), {})
    tokens, blocks, size = (_whole(labels.get(k)) for k in ("kv_cache_size_tokens", "num_gpu_blocks", "block_size"))
    if tokens:
        yield Fact("kv_capacity_tokens", tokens, "vllm:cache_config_info kv_cache_size_tokens")
    elif blocks and size:
        yield Fact(
            "kv_capacity_tokens", blocks * size, f"vllm:cache_config_info num_gpu_blocks {blocks} x block_size {size}"
        )
    if labels.get("enable_prefix_caching") in ("True", "False"):
        yield Fact(
            "prefix_cache", labels["enable_prefix_caching"] == "True", "vllm:cache_config_info enable_prefix_caching"
        )
    for name, configured, _ in rows:
        if name in ("vllm:scheduler_config_info", "vllm:vllm_config_info", "vllm:config_info"):
            for key, label in (
                ("max_running_requests", "max_num_seqs"),
                ("step_token_budget", "max_num_batched_tokens"),
            ):
                found = _whole(configured.get(label))
                if found:
                    yield Fact(key, found, f"{name} {label}")


def _sglang(rows: list[Series]) -> Iterable[Fact]:
    if found := _value(rows, "sglang:max_total_num_tokens"):
        yield Fact("kv_capacity_tokens", int(found[1]), found[0])
    if found := _value(rows, "sglang:max_running_requests"):
        yield Fact("max_running_requests", int(found[1]), found[0])
    for name, labels, _ in rows:
        if name.startswith("sglang:") and name.endswith("_info"):
            for key, label in (
                ("kv_capacity_tokens", "max_total_num_tokens"),
                ("max_running_requests", "max_running_requests"),
                ("step_token_budget", "chunked_prefill_size"),
            ):
                value = _whole(labels.get(label))
                if value:
                    yield Fact(key, value, f"{name} {label}")
    used, share = _value(rows, "sglang:num_used_tokens"), _value(rows, "sglang:token_usage")
    if used and share and used[1] > 0 and share[1] >= 0.05:
        # the ratio is printed with two digits, so a nearly empty cache would tell nothing
        yield Fact(
            "kv_capacity_tokens",
            round(used[1] / share[1]),
            "sglang:num_used_tokens / sglang:token_usage, to about its last digit",
        )


def _trtllm(rows: list[Series]) -> Iterable[Fact]:
    blocks, size = _value(rows, "trtllm_kv_cache_max_blocks"), _value(rows, "trtllm_kv_cache_tokens_per_block")
    if blocks and size:
        yield Fact(
            "kv_capacity_tokens",
            int(blocks[1] * size[1]),
            "trtllm_kv_cache_max_blocks x trtllm_kv_cache_tokens_per_block",
        )
    if found := _value(rows, "trtllm_max_num_active_requests", "trtllm_max_batch_size"):
        yield Fact("max_running_requests", int(found[1]), found[0])


def _triton_trtllm(rows: list[Series]) -> Iterable[Fact]:
    kinds = {
        (name, labels.get("kv_cache_block_type", labels.get("request_type", ""))): value for name, labels, value in rows
    }
    blocks, size = (
        kinds.get(("nv_trt_llm_kv_cache_block_metrics", "max")),
        kinds.get(("nv_trt_llm_kv_cache_block_metrics", "tokens_per")),
    )
    if blocks and size:
        yield Fact("kv_capacity_tokens", int(blocks * size), "nv_trt_llm_kv_cache_block_metrics max x tokens_per")
    most = kinds.get(("nv_trt_llm_request_metrics", "max"))
    if most:
        yield Fact("max_running_requests", int(most), "nv_trt_llm_request_metrics max")


def _llamacpp(rows: list[Series]) -> Iterable[Fact]:
    return ()


def _tgi(rows: list[Series]) -> Iterable[Fact]:
    if found := _value(rows, "tgi_batch_current_max_tokens"):
        yield Fact("kv_capacity_tokens", int(found[1]), found[0])


def _vllm_log(text: str) -> Iterable[Fact]:
    if found := re.search(r"KV cache size: ([\d,]+) tokens", text):
        yield Fact("kv_capacity_tokens", int(found[1].replace(",", "")), "startup log, KV cache size")
    for key, names in (("max_running_requests", "max_num_seqs"), ("step_token_budget", "max_num_batched_tokens")):
        if found := re.search(rf"['\"]?{names}['\"]?[:=]\s*(\d+)", text):
            yield Fact(key, int(found[1]), f"startup log, {names}")
    if found := re.search(r"['\"]?(?:enable_)?chunked_prefill(?:_enabled)?['\"]?[:=]\s*(True|False)", text):
        yield Fact("chunked_prefill", found[1] == "True", "startup log, chunked prefill")
    if found := re.search(r"enable_prefix_caching['\"]?[:=]\s*(True|False)", text):
        yield Fact("prefix_cache", found[1] == "True", "startup log, enable_prefix_caching")


_READERS: tuple[tuple[str, str, Callable[[list[Series]], Iterable[Fact]]], ...] = (
    ("vllm", "vllm:", _vllm),
    ("sglang", "sglang:", _sglang),
    ("trtllm", "trtllm_", _trtllm),
    ("trtllm", "nv_trt_llm_", _triton_trtllm),
    ("llamacpp", "llamacpp:", _llamacpp),
    ("tgi", "tgi_", _tgi),
)

HINTS = {
    "vllm:": "vllm serve --otlp-traces-endpoint http://COLLECTOR:4317 with OTEL_SERVICE_NAME set per engine, or --enable-per-request-metrics for the responses",
    "sglang:": "sglang: --export-metrics-to-file --export-metrics-to-file-dir DIR --enable-metrics writes a line a request; or --enable-trace "
    "--otlp-traces-endpoint COLLECTOR:4317",
    "trtllm_": "return_perf_metrics: true and perf_metrics_max_requests: 10000 in the server's options, then GET /perf_metrics every few seconds",
    "nv_": "tritonserver --trace-config level=TIMESTAMPS --trace-config rate=1 --trace-config count=-1 --trace-config triton,file=trace.json",
    "tgi_": "text-generation-launcher --json-output, one line a request",
    "llamacpp:": "keep the final object of each response (timings{} is always in it) and the server's log",
    "dynamo_": "DYN_REQUEST_TRACE=1 with DYN_REQUEST_TRACE_SINKS=file on the frontend",
    "llm_d_epp_": "the flag --tracing with OTEL_TRACES_EXPORTER=otlp and OTEL_TRACES_SAMPLER_ARG=1",
    "inference_": "the flag --tracing with OTEL_TRACES_EXPORTER=otlp and OTEL_TRACES_SAMPLER_ARG=1",
    "serve_": 'LoggingConfig(encoding="JSON") and the files proxy_*.log and replica_*.log of the session',
    "ray_serve_": 'LoggingConfig(encoding="JSON") and the files proxy_*.log and replica_*.log of the session',
    "litellm_": 'litellm_settings: {callbacks: ["generic_api"]} with log_format ndjson writes a payload a request',
    "envoy_": "an access log with the file logger and a json_format (hedgectl formats envoy_json shows the fields)",
}
"""Prefix of a metric's name -> what to switch on for data of single requests."""

_COLLECTOR = (
    "; collector: receivers: {otlp: {protocols: {grpc: {}}}}, exporters: {file: {path: spans.otlp.jsonl}}, "
    "service: {pipelines: {traces: {receivers: [otlp], exporters: [file]}}}"
)


def per_request_hint(names: Iterable[str]) -> str | None:
    """What to switch on instead of a metrics page that has ``names``; None for a writer that is not known."""
    listed = list(names)
    for prefix, hint in HINTS.items():
        if any(n.startswith(prefix) for n in listed):
            return hint + (_COLLECTOR if "otlp" in hint else "")
    return None
