"""Systems that cannot hedge, why, and the ways around: the second half of ``emit --list``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

IN_FRONT: Final = "hedge in the caller in front of it: emit --to client, typescript, swift or polly"
BEHIND: Final = "hedge in an Envoy between it and the engines: emit --to envoy"


@dataclass(frozen=True, slots=True)
class CannotHedge:
    """One system (or several alike) that has no delayed second request.

    ``nearest`` is the nearest thing it has and why that is not a hedge.
    """

    names: tuple[str, ...]
    title: str
    why: str
    nearest: str

    @property
    def around(self) -> str:
        """The two ways that work."""
        return f"either {IN_FRONT}; or {BEHIND}"


CANNOT_HEDGE: Final = (
    CannotHedge(
        ("litellm",),
        "LiteLLM router and proxy",
        "it has no delayed second request",
        "fastest_response sends all copies at once, to every model named: a race without budget",
    ),
    CannotHedge(
        ("portkey",),
        "Portkey gateway",
        "its strategies are single, loadbalance, fallback and conditional",
        "fallback follows a failure; an unknown key such as hedge is accepted in silence",
    ),
    CannotHedge(
        ("haproxy",),
        "HAProxy",
        "it has retries only",
        "retry-on response-timeout gives up the first copy before it sends the second",
    ),
    CannotHedge(
        ("nginx",),
        "nginx",
        "it has retries only",
        "proxy_next_upstream gives up the first copy before it sends the second",
    ),
    CannotHedge(("traefik",), "Traefik", "it has retries only", "the retry middleware follows a failure"),
    CannotHedge(("kong",), "Kong gateway", "it has retries only", "retries follow a failure"),
    CannotHedge(
        ("gateway-api",),
        "Kubernetes Gateway API",
        "no route or policy of it speaks of hedging",
        "HTTPRoute retry and XBackendTrafficPolicy are sequential",
    ),
    CannotHedge(
        ("envoy-gateway",),
        "Envoy Gateway",
        "BackendTrafficPolicy retries in sequence",
        "perRetry.timeout cancels the first copy; an EnvoyPatchPolicy can carry what emit --to envoy writes",
    ),
    CannotHedge(
        ("linkerd",),
        "Linkerd",
        "it has retries with a budget, no hedge",
        "a retry follows a failure",
    ),
    CannotHedge(
        ("grpc-core", "grpc-python", "grpc-cpp", "grpc-ruby", "grpc-php"),
        "gRPC C-core: Python, C++, Ruby, PHP",
        "hedgingPolicy is ignored, whatever it holds",
        "retryPolicy follows a failure",
    ),
    CannotHedge(
        ("grpc-go",),
        "gRPC for Go",
        "hedging is not implemented",
        "retryPolicy follows a failure",
    ),
)
