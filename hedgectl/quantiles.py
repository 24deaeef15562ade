"""Quantiles that say when they cannot be said: interpolation, weights, censoring, log buckets, digests.

Owns the t-digest library. Values are floats in any unit; the caller names the unit.
A censored value is a lower bound (a timeout, a hang-up, a cancelled loser): never a latency, never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgectl.errors import HedgectlError, InputError

Floats = NDArray[np.float64]

STANDARD = (0.50, 0.95, 0.99)
BUCKET_GROWTH = 1.01  # one log bucket is 1 % wide


def name(p: float) -> str:
    """``p50``, ``p95``, ``p99``, ``p99.9``."""
    return f"p{p * 100:.10g}"


def printable(n: int, p: float) -> bool:
    """True if at least one of ``n`` values lies beyond quantile ``p``: n(1-p) >= 1."""
    return n * (1 - p) >= 1 - 1e-9


def needed(p: float) -> int:
    """Smallest n with a distribution-free 95 % upper bound for quantile ``p``: 1 - p^n >= 0.95 (59, 299, 2995)."""
    return math.ceil(math.log(0.05) / math.log(p) - 1e-9)


def reliable(n: int, p: float) -> bool:
    """False for a tail percentile with fewer values than `needed`; the middle is never called unreliable."""
    return p < 0.9 or n >= needed(p)


def _weighted(values: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    x = np.asarray(values, dtype=np.float64).ravel()
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    if len(w) != len(x):
        raise ValueError(f"{len(x)} values, {len(w)} weights")
    keep = ~np.isnan(x) & (w > 0)
    return x[keep], w[keep]


def quantile(values: ArrayLike, p: float, weights: ArrayLike | None = None) -> float | None:
    """Linear interpolation between order statistics; None for no values.

    With weights (rows a row stands for) the result is that of the repeated rows: value i fills the
    0-based ranks [C_i, C_i + w_i - 1], C_i the weight before it, and the rank p (W - 1) is looked up.
    """
    x, w = _weighted(values, weights)
    if not len(x):
        return None
    if weights is None:
        return float(np.quantile(x, p))
    found, _ = _at_rank(x, w, np.ones(len(x), dtype=bool), p)
    return found


def redistribute(x: Floats, w: Floats, observed: NDArray[np.bool_]) -> tuple[Floats, Floats, float]:
    """Kaplan-Meier by redistribution to the right: (event values ascending, their mass, mass beyond the last event).

    The mass of a censored value moves, in proportion, to everything later. At ties events come first.
    """
    order = np.lexsort((~observed, x))
    x, w, observed = x[order], w[order], observed[order]
    if observed.all():
        return x, w, 0.0
    total = float(w.sum())
    at_risk = total - np.concatenate(([0.0], np.cumsum(w)[:-1]))
    # The last row's ratio is exact by construction; rounding must not make it negative.
    steps = np.where(observed, np.clip(1 - w / np.maximum(at_risk, w), 0.0, 1.0), 1.0)
    survival: Floats = np.asarray(np.cumprod(steps))
    before = np.concatenate(([1.0], survival[:-1]))
    mass: Floats = (before - survival) * total
    return x[observed], mass[observed], float(survival[-1] * total) if len(x) else 0.0


def _at_rank(x: Floats, w: Floats, observed: NDArray[np.bool_], p: float) -> tuple[float | None, bool]:
    """(quantile or None, True if it lies where only lower bounds are known)."""
    events, mass, beyond = redistribute(x, w, observed)
    total = float(mass.sum()) + beyond
    if not len(events):
        return None, True
    start = np.concatenate((np.zeros(1), np.cumsum(mass)[:-1]))
    stop = start + np.maximum(mass - 1.0, 0.0)
    rank = p * max(total - 1.0, 0.0)
    if rank > stop[-1] + 1e-9 * max(total, 1.0):
        # Beyond the last finished value: with censored mass there, only a bound is known.
        return (None, True) if beyond > 1e-9 else (float(events[-1]), False)
    positions = np.empty(2 * len(events))
    positions[0::2], positions[1::2] = start, stop
    return float(np.interp(rank, positions, np.repeat(events, 2))), False


def kaplan_meier(
    values: ArrayLike, observed: ArrayLike, p: float, weights: ArrayLike | None = None
) -> tuple[float | None, float | None]:
    """(quantile, lower bound): one of the two is None.

    ``observed`` False marks a censored value. The lower bound is the plain quantile of all values with
    each censored one taken at its bound: true whatever the cause of censoring is.
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    seen = np.asarray(observed, dtype=bool).ravel()
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    keep = ~np.isnan(x) & (w > 0)
    x, seen, w = x[keep], seen[keep], w[keep]
    if not len(x):
        return None, None
    if seen.all():
        return quantile(x, p, None if weights is None else w), None
    found, bounded = _at_rank(x, w, seen, p)
    if not bounded:
        return found, None
    return None, quantile(x, p, None if weights is None else w)


def summary(
    values: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    censored: ArrayLike | None = None,
    censored_weights: ArrayLike | None = None,
    ps: Sequence[float] = STANDARD,
    digits: int = 6,
) -> dict[str, Any]:
    """The shared quantile piece of every document.

    n counts finished values. A percentile is None if n(1-p) < 1, or if it lies where only lower bounds are known
    (then ``at_least`` has the bound). ``unreliable`` names printed ones below n = 59 / 299 / 2995.
    """
    x, w = _weighted(values, weights)
    bounds, bound_weights = _weighted(() if censored is None else censored, censored_weights)
    n = len(x)
    out: dict[str, Any] = {"n": n}
    at_least: dict[str, float] = {}
    unreliable: list[str] = []
    everything = np.concatenate((x, bounds))
    seen = np.concatenate((np.ones(n, dtype=bool), np.zeros(len(bounds), dtype=bool)))
    uniform = bool(np.all(w == 1.0)) and bool(np.all(bound_weights == 1.0))
    all_weights = None if uniform else np.concatenate((w, bound_weights))
    plain = np.quantile(x, ps) if n and uniform and not len(bounds) else None
    for i, p in enumerate(ps):
        value: float | None = None
        bound: float | None = None
        if plain is not None:
            value = float(plain[i])
        else:
            value, bound = kaplan_meier(everything, seen, p, all_weights)
        if bound is not None:
            at_least[name(p)] = round(bound, digits)
        shown = value is not None and printable(n, p)
        out[name(p)] = round(value, digits) if shown and value is not None else None
        if shown and not reliable(n, p):
            unreliable.append(name(p))
    out["at_least"] = at_least
    out["unreliable"] = unreliable
    return out


# --- log buckets: they add exactly, in any order -------------------------------------------------------------------


def bucket(values: ArrayLike) -> NDArray[np.int64]:
    """Number of the 1 % log bucket of each value; values at or below 0 share the bucket -(2**31)."""
    x = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = np.floor(np.log(x) / math.log(BUCKET_GROWTH) + 1e-9)
    return np.where(x > 0, raw, -(2.0**31)).astype(np.int64)


def bucket_value(number: ArrayLike) -> Floats:
    """The value that stands for a bucket: its geometric middle, at most 0.5 % from any value in it."""
    b = np.asarray(number, dtype=np.float64)
    middle = np.exp((np.maximum(b, -1e5) + 0.5) * math.log(BUCKET_GROWTH))
    return np.where(b <= -(2.0**31), 0.0, middle)


def bucket_summary(
    numbers: ArrayLike, events: ArrayLike, censored: ArrayLike, ps: Sequence[float] = STANDARD, digits: int = 6
) -> dict[str, Any]:
    """`summary` from (bucket, events, censored) counts; exact to half a bucket."""
    b = np.asarray(numbers, dtype=np.int64)
    e = np.asarray(events, dtype=np.float64)
    c = np.asarray(censored, dtype=np.float64)
    out = summary(
        bucket_value(b), weights=e, censored=bucket_value(b[c > 0]), censored_weights=c[c > 0], ps=ps, digits=digits
    )
    n = round(float(e.sum()))
    out["n"] = n
    out["unreliable"] = []
    for p in ps:
        value, _ = kaplan_meier(
            np.concatenate((bucket_value(b), bucket_value(b))),
            np.concatenate((np.ones(len(b), dtype=bool), np.zeros(len(b), dtype=bool))),
            p,
            np.concatenate((e, c)),
        )
        shown = value is not None and printable(n, p)
        out[name(p)] = round(value, digits) if shown and value is not None else None
        if shown and not reliable(n, p):
            out["unreliable"].append(name(p))
    return out


# --- digests: the exchange form --------------------------------------------------------------------------------------


def _library() -> Any:
    try:
        import fastdigest
    except ImportError as error:
        raise HedgectlError(
            "digests need the library fastdigest, which is not installed here",
            hint="pip install fastdigest; there is no build of it for Windows on ARM. All else works without it",
        ) from error
    return fastdigest.TDigest


def digest(values: ArrayLike) -> Any:
    """A t-digest of finite values (no censoring: keep one digest of finished and one of censored values)."""
    x = np.asarray(values, dtype=np.float64).ravel()
    return _library().from_values(x[np.isfinite(x)])


def digest_to_dict(found: Any) -> dict[str, Any]:
    """The dict form of the Python package ``tdigest`` (n, delta, K, centroids of m and c), with min and max added."""
    raw = found.to_dict()
    centroids = [{"m": float(c["m"]), "c": float(c["c"])} for c in raw["centroids"]]
    return {
        "n": float(raw["mass"]),
        "delta": 0.01,
        "K": 25,
        "min": raw["min"] if centroids else None,
        "max": raw["max"] if centroids else None,
        "centroids": centroids,
    }


def digest_from_dict(form: Mapping[str, Any], *, where: str | None = None) -> Any:
    """A digest from the dict form of ``tdigest`` or of ``fastdigest``. Raises InputError for anything else."""
    hint = 'expected {"n": .., "centroids": [{"m": mean, "c": count}, ..]}'
    centroids = form.get("centroids") if isinstance(form, Mapping) else None
    if not isinstance(centroids, list):
        raise InputError("not a t-digest: no list of centroids", where=where, hint=hint)
    clean: list[dict[str, float]] = []
    for c in centroids:
        try:
            mean, count = float(c["m"]), float(c["c"])
        except (TypeError, KeyError, ValueError) as error:
            raise InputError("not a t-digest: a centroid needs m and c", where=where, hint=hint) from error
        if not (math.isfinite(mean) and math.isfinite(count) and count > 0):
            raise InputError("not a t-digest: m must be finite and c above 0", where=where, hint=hint)
        clean.append({"m": mean, "c": count})
    clean.sort(key=lambda c: c["m"])
    source: dict[str, Any] = {"centroids": clean}
    for key in ("min", "max", "max_centroids"):
        if form.get(key) is not None:
            source[key] = form[key]
    return _library().from_dict(source)


def weighted_digest(values: ArrayLike, weights: ArrayLike) -> Any:
    """A t-digest of values that each stand for ``weights`` many; values without weight are left out."""
    x, w = _weighted(values, weights)
    pairs = [{"m": float(m), "c": float(c)} for m, c in zip(x, w, strict=True)]
    return digest_from_dict({"centroids": pairs}) if pairs else _library()()


def merge_digests(digests: Sequence[Any]) -> Any:
    """One digest of all; an empty one for none. All at once: merging pair by pair gives a result that depends on the order."""
    filled = [d for d in digests if not d.is_empty()]
    if not filled:
        return _library()()
    import fastdigest

    return fastdigest.merge_all(filled)


def digest_quantile(found: Any, p: float) -> float | None:
    """Quantile of a digest, None for an empty one."""
    return None if found.is_empty() else float(found.quantile(p))
