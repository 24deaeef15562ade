"""Reading engine load from a Prometheus page: vLLM, SGLang, TensorRT-LLM and the llm-d / Gateway API endpoint picker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)")

# (engine, prefix of its names) -> what each name means. Engine pages have one series an engine; their sum is the load.
# `kv` is a share of 1 in all of them, whatever the name says.
_SUMS: Mapping[str, tuple[str, str]] = {
    "vllm:num_requests_running": ("vllm", "running"),
    "vllm:num_requests_waiting": ("vllm", "waiting"),
    "vllm:generation_tokens_total": ("vllm", "tokens"),
    "vllm:kv_cache_usage_perc": ("vllm", "kv"),
    "vllm:gpu_cache_usage_perc": ("vllm", "kv"),  # its name before 0.10
    "sglang:num_running_reqs": ("sglang", "running"),
    "sglang:num_queue_reqs": ("sglang", "waiting"),
    "sglang:generation_tokens_total": ("sglang", "tokens"),
    "sglang:token_usage": ("sglang", "kv"),
    "trtllm_num_requests_running": ("trtllm", "running"),
    "trtllm_num_requests_waiting": ("trtllm", "waiting"),
    "trtllm_kv_cache_utilization": ("trtllm", "kv"),
}
# The endpoint picker reports averages over its pods.
_AVERAGES: Mapping[str, str] = {
    "llm_d_epp_average_queue_size": "waiting",
    "llm_d_epp_average_running_requests": "running",
    "llm_d_epp_average_kv_cache_utilization": "kv",
    "inference_pool_average_queue_size": "waiting",
    "inference_pool_average_running_requests": "running",
    "inference_pool_average_kv_cache_utilization": "kv",
}
_PODS = ("llm_d_epp_ready_pods", "llm_d_epp_ready_endpoints", "inference_pool_ready_pods")


@dataclass(frozen=True, slots=True)
class Gauges:
    """The load of all engines on one or several pages; None = the page does not say."""

    engine: str | None  # vllm | sglang | trtllm | llm-d
    replicas: int
    running: float | None  # requests, all engines
    waiting: float | None
    kv: float | None  # 0..1, mean over engines
    tokens: float | None  # generated since start, all engines

    def per_replica(self, value: float | None) -> float | None:
        """The mean over engines."""
        return None if value is None else value / max(self.replicas, 1)

    def plus(self, other: Gauges) -> Gauges:
        """Two pages of different engines together."""
        both = self.replicas + other.replicas
        return Gauges(
            self.engine or other.engine,
            both,
            _add(self.running, other.running),
            _add(self.waiting, other.waiting),
            None
            if self.kv is None or other.kv is None
            else (self.kv * self.replicas + other.kv * other.replicas) / max(both, 1),
            _add(self.tokens, other.tokens),
        )


def _add(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def read(page: str) -> Gauges | None:
    """The gauges of one page; None if it has none of the known names. Unreadable lines are passed over."""
    sums: dict[str, list[float]] = {}
    averages: dict[str, float] = {}
    engine: str | None = None
    pods = 0
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            continue
        name = match[1]
        if name in _SUMS or name in _AVERAGES or name in _PODS:
            try:
                value = float(match[3])
            except ValueError:
                continue
            if value != value:
                continue
            if name in _SUMS:
                engine, what = _SUMS[name]
                sums.setdefault(what, []).append(value)
            elif name in _AVERAGES:
                averages.setdefault(_AVERAGES[name], value)
            else:
                pods = max(pods, int(value))
    if sums:
        replicas = max(len(values) for values in sums.values())
        kv = sums.get("kv")
        return Gauges(
            engine,
            replicas,
            sum(sums["running"]) if "running" in sums else None,
            sum(sums["waiting"]) if "waiting" in sums else None,
            sum(kv) / len(kv) if kv else None,
            sum(sums["tokens"]) if "tokens" in sums else None,
        )
    if averages:
        count = max(pods, 1)
        return Gauges(
            "llm-d",
            count,
            averages["running"] * count if "running" in averages else None,
            averages["waiting"] * count if "waiting" in averages else None,
            averages.get("kv"),
            None,
        )
    return None
