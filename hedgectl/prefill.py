"""Fits the prefill law base + per_token * uncached tokens to first-token times, and says when the fit is no good.

Only arrivals that found no other request awaiting its first token on their replica count, so the time holds no queue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MIN_ARRIVALS = 200
MIN_LENGTHS = 30
MAX_SLOPE_INTERVAL = 0.20
MAX_ERROR = 0.15
_FOLDS = 5
_SAMPLE = 200_000  # rows beyond this add nothing to two numbers


@dataclass(frozen=True, slots=True)
class PrefillFit:
    """prefill_ns = base_ns + per_token_ns * uncached prompt tokens, and what speaks for it.

    `slope_interval` is the half width of the slope's 95 % interval over the slope; `error` the median absolute relative
    error out of fold. `refused` names the first demand that failed; None = good enough to divide TTFT.
    """

    base_ns: float
    per_token_ns: float
    arrivals: int
    lengths: int
    slope_interval: float | None
    error: float | None
    refused: str | None

    @property
    def good(self) -> bool:
        return self.refused is None


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    mean_x, mean_y = float(x.mean()), float(y.mean())
    spread = float(((x - mean_x) ** 2).sum())
    slope = float(((x - mean_x) * (y - mean_y)).sum()) / spread if spread > 0 else 0.0
    return mean_y - slope * mean_x, slope


def _trimmed(x: Floats, y: Floats) -> tuple[float, float, NDArray[np.bool_]]:
    """Trimmed least squares on relative residuals: (base, slope, rows kept).

    Starts from the medians of length bins, so that slow spells cannot pull the first line.
    """
    cuts = np.quantile(x, np.linspace(0, 1, 11))
    which = np.clip(np.searchsorted(cuts, x, side="right") - 1, 0, 9)
    bins = [b for b in range(10) if np.any(which == b)]
    if len(bins) >= 2:
        base, slope = _line(
            np.array([np.median(x[which == b]) for b in bins]), np.array([np.median(y[which == b]) for b in bins])
        )
    else:
        base, slope = float(np.median(y)), 0.0
    kept = np.ones(len(x), dtype=bool)
    for _ in range(8):
        expected = np.maximum(base + slope * x, 1.0)
        ratio = np.log(np.maximum(y, 1.0) / expected)
        centre = float(np.median(ratio))
        spread = 1.4826 * float(np.median(np.abs(ratio - centre)))
        limit = max(3.0 * spread, 0.01)
        now = np.abs(ratio - centre) <= limit
        if now.sum() < max(10, len(x) // 2):
            break
        base, slope = _line(x[now], y[now])
        if np.array_equal(now, kept):
            break
        kept = now
    return base, slope, kept


def fit(uncached_tokens: ArrayLike, ttft_ns: ArrayLike) -> PrefillFit:
    """The law from rows in order of arrival; shapes (n,). Never raises for thin data: `refused` says what is missing."""
    x = np.asarray(uncached_tokens, dtype=np.float64)
    y = np.asarray(ttft_ns, dtype=np.float64)
    n, lengths = len(x), len(np.unique(x))
    if n < MIN_ARRIVALS:
        return PrefillFit(0.0, 0.0, n, lengths, None, None, "too_few_idle_arrivals")
    if lengths < MIN_LENGTHS:
        return PrefillFit(0.0, 0.0, n, lengths, None, None, "too_few_prompt_lengths")
    if n > _SAMPLE:
        pick = np.linspace(0, n - 1, _SAMPLE).astype(np.int64)
        x, y = x[pick], y[pick]
    base, slope, kept = _trimmed(x, y)
    xs, ys = x[kept], y[kept]
    residual = ys - (base + slope * xs)
    centred = xs - xs.mean()
    spread = float((centred**2).sum())
    # Heteroscedastic error (White): long prompts scatter more.
    error_of_slope = float(np.sqrt(((centred * residual) ** 2).sum())) / spread if spread > 0 else np.inf
    interval = 1.96 * error_of_slope / slope if slope > 0 else None
    # Folds are runs of time, not random rows: neighbours share an engine's state.
    fold = np.arange(len(x)) * _FOLDS // len(x)
    errors = np.empty(len(x))
    for k in range(_FOLDS):
        out = fold == k
        b, s, _ = _trimmed(x[~out], y[~out])
        errors[out] = np.abs(y[out] - np.maximum(b + s * x[out], 1.0)) / np.maximum(y[out], 1.0)
    error = float(np.median(errors))
    refused = None
    if slope <= 0:
        refused = "no_growth_with_prompt"
    elif interval is None or interval > MAX_SLOPE_INTERVAL:
        refused = "slope_too_uncertain"
    elif error > MAX_ERROR:
        refused = "fit_error_too_large"
    return PrefillFit(max(base, 0.0), slope, n, lengths, interval, error, refused)
