"""What copies cost: prices from the user, the log or the public list, and bills for losers from nothing to a full answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import Floats, Ints, Workload

Billing = Literal["full", "until_cancel", "prompt_only", "none"]
PriceSource = Literal["config", "log", "public"]

_PER_MILLION = 1e-6
_GOOD_FIT = 0.02  # median relative error of prices read off logged costs


@dataclass(frozen=True, slots=True)
class Prices:
    """Money per token and per request; where each comes from."""

    input: float
    cached_input: float
    output: float
    per_request: float
    currency: str
    source: PriceSource

    def of(self, uncached: Floats, cached: Floats, output: Floats) -> Floats:
        """Cost of requests with these tokens."""
        return self.per_request + uncached * self.input + cached * self.cached_input + output * self.output


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """The copies of one policy, m of them, each with k equally shaped outcomes of given weight (rows sum to 1)."""

    rows: Ints  # (m,) rows of the workload
    weight: Floats  # (m, k)
    won: NDArray[np.bool_]  # (m, k)
    output: Floats  # (m, k) tokens of a copy that is never cancelled; NaN unknown
    # How much of its answer the loser had written when it was cancelled, 0..1; NaN unknown
    loser_written: Floats  # (m, k)


def prices_for(workload: Workload, model: str | None, table: Mapping[str, Mapping[str, Any]]) -> Prices | None:
    """Prices of one model: the user's table, else read off the log's own costs, else the public list; None if unknown."""
    given = table.get(model) if model is not None else None
    if given is None and len(table) == 1 and "*" in table:
        given = table["*"]
    if given is not None:
        full = float(given.get("input_per_mtok", 0.0)) * _PER_MILLION
        cached = given.get("cached_input_per_mtok")
        return Prices(
            input=full,
            cached_input=full if cached is None else float(cached) * _PER_MILLION,
            output=float(given.get("output_per_mtok", 0.0)) * _PER_MILLION,
            per_request=float(given.get("per_request", 0.0)),
            currency=str(given.get("currency", "USD")),
            source="config",
        )
    if has_costs(workload):
        return _from_log(workload)
    return None if model is None else public_prices(model)


def has_costs(workload: Workload) -> bool:
    """Whether at least half of the rows carry a cost."""
    return bool(len(workload)) and float(np.isfinite(workload.cost).mean()) >= 0.5


def public_prices(model: str) -> Prices | None:
    """Prices from the public list that ships with genai-prices (no network); None for a model it does not know."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    unit = 1000  # small enough to stay in the first price tier
    try:
        whole = calc_price(Usage(input_tokens=unit, output_tokens=unit), model_ref=model)
        cached = calc_price(Usage(input_tokens=unit, cache_read_tokens=unit), model_ref=model)
    except (LookupError, ValueError):
        return None
    return Prices(
        input=float(whole.input_price) / unit,
        cached_input=float(cached.input_price) / unit,
        output=float(whole.output_price) / unit,
        per_request=0.0,
        currency="USD",
        source="public",
    )


def _from_log(workload: Workload) -> Prices | None:
    """Least squares of logged cost on uncached, cached and output tokens, if that explains the bill to 2 %; else None."""
    w = workload
    rows = np.isfinite(w.cost) & (w.cost > 0) & (w.prompt_tokens >= 0) & (w.completion_tokens >= 0)
    if int(rows.sum()) < 30:
        return None
    cached = np.maximum(w.cached_tokens[rows], 0).astype(np.float64)
    uncached = w.uncached_tokens[rows].astype(np.float64)
    output = w.completion_tokens[rows].astype(np.float64)
    cost = w.cost[rows]
    table = np.column_stack([uncached, cached, output])
    used = [k for k in range(3) if float(table[:, k].max()) > 0]
    scale = 1.0 / cost
    part, *_ = np.linalg.lstsq(table[:, used] * scale[:, None], np.ones(len(cost)), rcond=None)
    price = np.zeros(3)
    price[used] = part
    error = float(np.median(np.abs(table @ price - cost) / cost))
    if error > _GOOD_FIT or bool(np.any(price < 0)):
        return None
    lost_cache = price[1] if 1 in used else price[0]
    return Prices(float(price[0]), float(lost_cache), float(price[2]), 0.0, w.currency or "USD", "log")


def growth(
    workload: Workload, prices: Prices | None, copies: Copies, billing: Billing = "full"
) -> dict[str, Any] | None:
    """The cost object of the policy document; None if neither costs nor prices are known.

    `low_ratio`: losers pay for their prompt only; `high_ratio`: losers pay for a full answer. A copy elsewhere pays the
    uncached price for its whole prompt.
    """
    own = request_costs(workload, prices)
    if own is None:
        return None
    before = float((own * workload.weight).sum())
    if before <= 0:
        return None
    extra = {
        kind: _extra(workload, prices, own, copies, kind) for kind in ("full", "until_cancel", "prompt_only", "none")
    }
    chosen = extra[billing]
    low, high = min(extra["prompt_only"], chosen), max(extra["full"], chosen)
    currency = (
        workload.currency if has_costs(workload) and workload.currency else (prices.currency if prices else "USD")
    )
    return {
        "currency": currency,
        "before": round(before, 6),
        "after": round(before + chosen, 6),
        "delta_ratio": round(chosen / before, 6),
        "low_ratio": round(low / before, 6),
        "high_ratio": round(high / before, 6),
        "loser_billing": billing,
        "price_source": "log" if has_costs(workload) else (prices.source if prices else "log"),
    }


def dearest(
    workload: Workload, prices: Prices | None, ways: Sequence[Copies], billing: Billing = "full"
) -> dict[str, Any] | None:
    """`growth` of the dearest of several ways the same policy may turn out, with a range over all of them."""
    found = [each for copies in ways if (each := growth(workload, prices, copies, billing)) is not None]
    if not found:
        return None
    return max(found, key=lambda each: float(each["delta_ratio"])) | {
        "low_ratio": min(float(each["low_ratio"]) for each in found),
        "high_ratio": max(float(each["high_ratio"]) for each in found),
    }


def request_costs(workload: Workload, prices: Prices | None) -> Floats | None:
    """What each request cost, shape (n,): as logged, else by price, else the mean of the logged ones; None if unknown."""
    w = workload
    logged = np.isfinite(w.cost)
    if not has_costs(workload) and prices is None:
        return None
    if prices is None:
        # A request without a logged cost is taken as an average one: leaving it out would understate the bill.
        return np.where(logged, w.cost, float(w.cost[logged].mean()))
    priced = prices.of(
        w.uncached_tokens.astype(np.float64),
        np.maximum(w.cached_tokens, 0).astype(np.float64),
        np.maximum(w.completion_tokens, 0).astype(np.float64),
    )
    return np.where(logged, w.cost, priced) if has_costs(workload) else priced


def _extra(workload: Workload, prices: Prices | None, own: Floats, copies: Copies, billing: Billing) -> float:
    """Money beyond the bill without copies."""
    rows = copies.rows
    if not len(rows):
        return 0.0
    primary = own[rows][:, None] + np.zeros_like(copies.weight)
    prompt, whole = _copy_cost(workload, prices, own, copies)
    primary_prompt = _primary_prompt(workload, prices, own, rows)[:, None]
    # A failed primary cost nothing and its copy is paid in full: the formulas below hold with primary = 0.
    primary_prompt = np.minimum(primary_prompt, primary)
    written = np.where(np.isfinite(copies.loser_written), np.clip(copies.loser_written, 0.0, 1.0), 1.0)
    share = {"full": np.ones_like(written), "until_cancel": written, "prompt_only": np.zeros_like(written)}.get(billing)
    if share is None:  # nothing is billed for a loser
        loser_copy, loser_primary = np.zeros_like(whole), np.zeros_like(primary)
    else:
        loser_copy = prompt + share * (whole - prompt)
        loser_primary = primary_prompt + share * (primary - primary_prompt)
    extra = np.where(copies.won, whole + loser_primary - primary, loser_copy)
    return float((extra * copies.weight * workload.weight[rows][:, None]).sum())


def _copy_cost(workload: Workload, prices: Prices | None, own: Floats, copies: Copies) -> tuple[Floats, Floats]:
    """(prompt alone, whole answer) of each copy, (m, k); prompts at the uncached price."""
    rows = copies.rows
    shape = np.zeros_like(copies.weight)
    primary = own[rows][:, None] + shape
    answered = np.where(workload.completion_tokens[rows] > 0, workload.completion_tokens[rows], np.nan)[:, None] + shape
    output = np.where(np.isfinite(copies.output), copies.output, answered)
    output = np.where(np.isfinite(output), output, 0.0)
    if prices is None:
        # Only bills are known: a copy costs what its request cost, in proportion to its length where that is known.
        ratio = np.where(np.isfinite(answered), output / np.where(np.isfinite(answered), answered, 1.0), 1.0)
        mean = float(own[own > 0].mean()) if bool(np.any(own > 0)) else 0.0
        base = np.where(primary > 0, primary, mean)
        return np.zeros_like(base), base * ratio
    prompt_tokens = np.maximum(workload.prompt_tokens[rows], 0).astype(np.float64)[:, None] + shape
    prompt = prices.of(prompt_tokens, shape, shape)
    whole = prices.of(prompt_tokens, shape, output)
    # Where the copy is the same work as a request with a logged bill, that bill is better than any fitted price.
    same = (np.abs(output - answered) < 0.5) & (np.maximum(workload.cached_tokens[rows], 0) == 0)[:, None]
    whole = np.where(same & np.isfinite(workload.cost[rows])[:, None] & (primary > 0), primary, whole)
    return np.minimum(prompt, whole), whole


def _primary_prompt(workload: Workload, prices: Prices | None, own: Floats, rows: Ints) -> Floats:
    if prices is None:
        return np.zeros(len(rows))
    return prices.of(
        workload.uncached_tokens[rows].astype(np.float64),
        np.maximum(workload.cached_tokens[rows], 0).astype(np.float64),
        np.zeros(len(rows)),
    )


def quota_peak(workload: Workload, rows: Ints, delay_s: float) -> dict[str, int | None]:
    """Requests and tokens in the busiest minute, copies included: what a rate limit has to allow. Tokens are None where none are logged."""
    w = workload
    if not len(w):
        return {"requests_per_minute_peak": 0, "tokens_per_minute_peak": 0}
    tokens = np.maximum(w.prompt_tokens, 0) + np.maximum(w.completion_tokens, 0)
    at = np.concatenate((w.arrival_s, w.arrival_s[rows] + delay_s))
    minute = np.floor((w.t0_ns / 1e9 + at) / 60.0).astype(np.int64)
    minute -= minute.min()
    weight = np.concatenate((w.weight, w.weight[rows]))
    count = np.bincount(minute, weight)
    volume = np.bincount(minute, weight * np.concatenate((tokens, tokens[rows])))
    logged = bool(((w.prompt_tokens >= 0) | (w.completion_tokens >= 0)).any())
    return {
        "requests_per_minute_peak": round(float(count.max())),
        "tokens_per_minute_peak": round(float(volume.max())) if logged else None,
    }
