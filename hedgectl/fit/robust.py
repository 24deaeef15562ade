"""Straight lines through times of which a good part is slower than the law says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgectl.model import Floats, Ints

KEEP = 0.6  # share of rows a law is fitted to: up to 40 % may be served slowly without moving it
ROUNDS = 25
LAW_ROWS = 150_000


@dataclass(frozen=True, slots=True)
class Line:
    """y = base + slope x; intervals are 95 %, from the rows kept; `spread` is 1.4826 x median |relative residual|."""

    base: float
    slope: float
    base_interval: tuple[float, float]
    slope_interval: tuple[float, float]
    spread: float


def trimmed_line(x: Floats, y: Floats) -> Line:
    """Least trimmed squares of relative residuals, started from medians per quantile of x.

    Relative, because a slow period multiplies. Both coefficients are kept >= 0. One distinct x gives slope 0.
    """
    good = thinned(np.flatnonzero((y > 0) & np.isfinite(x) & np.isfinite(y)))
    x, y = x[good], y[good]
    if not len(y):
        return Line(0.0, 0.0, (0.0, 0.0), (0.0, 0.0), 0.0)
    if float(np.ptp(x)) <= 0:
        return _flat(y)
    base, slope = _start(x, y)
    keep = np.ones(len(x), dtype=bool)
    for _ in range(ROUNDS):
        predicted = np.maximum(base + slope * x, 1e-12)
        off = np.abs(y / predicted - 1.0)
        before, keep = keep, off <= np.quantile(off, KEEP)
        base, slope = solve_nonnegative(np.ones(int(keep.sum())), x[keep], y[keep])
        if np.array_equal(before, keep):
            break
    predicted = np.maximum(base + slope * x, 1e-12)
    relative = y / predicted - 1.0
    spread = 1.4826 * float(np.median(np.abs(relative)))
    near = np.abs(relative) <= 3.0 * spread + 1e-9
    half_base, half_slope = half_widths(np.ones(int(near.sum())), x[near], y[near], base, slope)
    return Line(base, slope, _around(base, half_base), _around(slope, half_slope), spread)


def solve_nonnegative(u: Floats, v: Floats, y: Floats, weight: Floats | None = None) -> tuple[float, float]:
    """Coefficients (p, q) >= 0 of y = p u + q v, least squares of the relative residual."""
    w = 1.0 / np.maximum(y, 1e-12) if weight is None else weight / np.maximum(y, 1e-12)
    a, b, c = u * w, v * w, y * w
    aa, ab, bb, ac, bc = (dot(p, q) for p, q in ((a, a), (a, b), (b, b), (a, c), (b, c)))
    det = aa * bb - ab * ab
    if det > 1e-12 * max(aa * bb, 1e-300):
        p, q = (ac * bb - bc * ab) / det, (bc * aa - ac * ab) / det
        if p >= 0 and q >= 0:
            return p, q
        if p < 0 and bb > 0:
            return 0.0, max(bc / bb, 0.0)
    return (max(ac / aa, 0.0) if aa > 0 else 0.0), 0.0


def _start(x: Floats, y: Floats) -> tuple[float, float]:
    """A line through the medians of eight groups of x; the median shrugs off slow rows in each group."""
    edges = np.quantile(x, np.linspace(0, 1, 9))
    group = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, 7)
    pairs = [(float(np.median(x[group == g])), float(np.median(y[group == g]))) for g in range(8) if np.any(group == g)]
    gx, gy = (np.array(column) for column in zip(*pairs, strict=True))
    return solve_nonnegative(np.ones(len(gx)), gx, gy)


def _flat(y: Floats) -> Line:
    middle = float(np.median(y))
    spread = 1.4826 * float(np.median(np.abs(y / middle - 1.0)))
    half = 1.96 * spread * middle * 1.2533 / np.sqrt(len(y))
    return Line(middle, 0.0, _around(middle, half), (0.0, 0.0), spread)


def _around(value: float, half: float) -> tuple[float, float]:
    return max(value - half, 0.0), value + half


def half_widths(u: Floats, v: Floats, y: Floats, p: float, q: float) -> tuple[float, float]:
    """1.96 standard errors of (p, q) in y = p u + q v."""
    found = errors_of([u, v], y, [p, q])
    return found[0], found[1]


def errors_of(columns: list[Floats], y: Floats, law: list[float]) -> list[float]:
    """1.96 standard errors of each coefficient of y = sum of law x columns, residuals taken relative to the law."""
    predicted = np.maximum(sum((c * k for c, k in zip(columns, law, strict=True)), np.zeros(len(y))), 1e-12)
    scaled = [c / predicted for c in columns]
    residual = y / predicted - 1.0
    normal = np.array([[dot(a, b) for b in scaled] for a in scaled])
    covariance = np.linalg.pinv(normal) * dot(residual, residual) / max(len(y) - len(law), 1)
    return [float(e) for e in 1.96 * np.sqrt(np.maximum(np.diag(covariance), 0.0))]


def dot(a: Floats, b: Floats) -> float:
    """Sum of products without BLAS: the same bytes on every machine, and no threads that wait for each other."""
    return float((a * b).sum())


def thinned(rows: Ints) -> Ints:
    """Every k-th row, so that about 150,000 are left: a law needs no more."""
    return rows[:: max(1, len(rows) // LAW_ROWS)]
