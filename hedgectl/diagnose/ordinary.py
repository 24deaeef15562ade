"""What a request ordinarily takes: the law of its model on its own lengths, so that a large model is not taken for a slow replica."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgectl.estimate import Law, fit_law

Floats = NDArray[np.float64]

OWN_LAW_ROWS = 200  # requests of one model from which its own law is fitted; fewer share the law of all


@dataclass(frozen=True, slots=True)
class Ordinary:
    """`seconds(rows)`: shape (n,), what the prompt and output lengths of each row let expect of its model."""

    shared: Law
    by_model: dict[int, Law]

    def seconds(self, rows: dict[str, Floats]) -> Floats:
        """`rows` holds `model`, `uncached_tokens`, `output_tokens`, each (n,); NaN lengths count as 0."""
        uncached, output = np.nan_to_num(rows["uncached_tokens"]), np.nan_to_num(rows["output_tokens"])
        out = self.shared.seconds(uncached, output)
        for model, law in self.by_model.items():
            mine = rows["model"] == model
            out[mine] = law.seconds(uncached[mine], output[mine])
        return out


def ordinary(rows: dict[str, Floats], time_ns: Floats) -> Ordinary:
    """Fits finished rows; without token counts a law is the median time of its model."""
    models, sizes = np.unique(rows["model"], return_counts=True)
    own = {}
    if len(models) > 1:
        for model, size in zip(models, sizes, strict=True):
            if size >= OWN_LAW_ROWS:
                own[int(model)] = _law(rows, time_ns, rows["model"] == model)
    return Ordinary(_law(rows, time_ns, np.ones(len(time_ns), dtype=bool)), own)


def _law(rows: dict[str, Floats], time_ns: Floats, mine: NDArray[np.bool_]) -> Law:
    length = rows["output_tokens"][mine]
    known = np.isfinite(length)
    told = known if known.sum() >= 0.5 * len(length) else np.ones(len(length), dtype=bool)
    return fit_law(np.nan_to_num(rows["uncached_tokens"][mine]), np.nan_to_num(length), time_ns[mine] / 1e9, told)


def late(rows: dict[str, Floats], time_ns: Floats, limit_ns: float) -> NDArray[np.bool_]:
    """Rows beyond `limit_ns`; with several models beyond the p95 of their own, so that replicas of one model are compared."""
    out = time_ns > limit_ns
    models, sizes = np.unique(rows["model"], return_counts=True)
    if len(models) > 1:
        for model, size in zip(models, sizes, strict=True):
            mine = rows["model"] == model
            if size >= OWN_LAW_ROWS:
                out[mine] = time_ns[mine] > np.nanquantile(time_ns[mine], 0.95)
    return np.asarray(out & np.isfinite(time_ns))
