"""The load-blind screen: what a delayed copy would have done, read off other requests of the same moments (matched transplant).

For every request that outlasts the delay, donors are requests that reached other replicas at about the time the copy
would have started. Each donor lends its queue and its speed, applied to the request's own tokens. The copies' own load
is not seen, so the answer is optimistic: a screen, not a projection of a busy fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import ERROR, OK, Floats, Ints, Workload

Trigger = Literal["first_token", "response", "response_headers"]
CopyLength = Literal["same", "independent"]

DONORS = 16  # weights 1/16 in the method's specification
HORIZON_S = 120.0  # donors further away in time say nothing about this moment
_NEIGHBOURS = 64  # looked at on either side of the copy's start to find 16 on other replicas

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Law:
    """`base_s + per_uncached_s * uncached prompt tokens + per_output_s * output tokens`, at ordinary speed."""

    base_s: float
    per_uncached_s: float
    per_output_s: float
    rows: int

    def seconds(self, uncached: Floats, output: Floats) -> Floats:
        """Shape as the arguments; seconds."""
        return self.base_s + self.per_uncached_s * uncached + self.per_output_s * output


@dataclass(frozen=True, slots=True)
class Budget:
    """A token bucket: every logical request pays `ratio` in, a copy takes 1 out, at most `burst` are kept (full at start)."""

    ratio: float
    burst: float


@dataclass(frozen=True, slots=True, eq=False)
class Screened:
    """One policy on one copy-length assumption. `m` copies were sent, each with up to 16 equally likely outcomes.

    `e2e_s` and `ttft_s` are what the caller sees, shape (m, 16); weights sum to 1 in a row; an outcome of inf is a request
    for which neither copy succeeded. `copy_e2e_s` is the copy's own time from its start, had it not been cancelled.
    """

    hedged: Ints  # (m,) rows of the workload that got a copy
    weight: Floats  # (m, 16)
    e2e_s: Floats
    ttft_s: Floats
    won: Bools  # (m, 16) the copy's answer was used
    copy_e2e_s: Floats
    copy_output: Floats  # (m, 16) output tokens of the copy; NaN unknown
    due: int  # eligible requests that outlasted the delay
    refused_budget: int
    ineligible: int  # requests that outlasted the delay and were not eligible
    no_donor: int

    @property
    def win_rate(self) -> float | None:
        """Winning copies per copy; None without copies."""
        if not len(self.hedged):
            return None
        return float((self.weight * self.won).sum() / len(self.hedged))


class Screen:
    """The screen over one workload; fitting and matching data are prepared once, policies are asked many times."""

    def __init__(self, workload: Workload) -> None:
        """`workload`: one scope, in order of arrival, what the callers saw without copies."""
        self.workload = workload
        self.output = _work_units(workload)
        self.uncached = workload.uncached_tokens.astype(np.float64)
        ok = workload.status == OK
        self.has_ttft = bool(np.mean(np.isfinite(workload.ttft_s[ok])) >= 0.5) if ok.any() else False
        # Errors are donors too: a copy sent then would have failed. Other censored rows say nothing about a copy's time.
        usable = np.isfinite(workload.e2e_s) & ((ok & (workload.e2e_s > 0)) | (workload.status == ERROR))
        if self.has_ttft:
            usable &= ~ok | np.isfinite(workload.ttft_s)
        # A response-cache hit never reached an engine, so it cannot stand for a copy.
        self._donor = np.flatnonzero(usable & (workload.cache_hit != 1))
        self._donor_arrival = workload.arrival_s[self._donor]
        self.ids_known = bool((workload.replica >= 0).mean() > 0.5) if len(workload) else False
        self.tokens_known = bool(np.isfinite(self.output[ok]).mean() > 0.5) if ok.any() else False
        served = ok & (workload.cache_hit != 1)
        output = np.where(
            np.isfinite(self.output), self.output, np.nanmedian(self.output[ok]) if self.tokens_known else 0.0
        )
        self.output = output
        none = np.zeros(len(workload))
        self.first_law = fit_law(self.uncached, none, workload.ttft_s, served) if self.has_ttft else None
        self.whole_law = fit_law(self.uncached, output if self.tokens_known else none, workload.e2e_s, served)

    def clock(self, trigger: Trigger) -> Floats:
        """Time after which the trigger's condition is met by the primary, shape (n,); inf for a failure that came without it."""
        w = self.workload
        if trigger == "first_token":
            seen = w.ttft_s
        elif trigger == "response_headers":
            seen = w.headers_s
        else:
            seen = w.e2e_s
        # A request that ends (in an error too) stops its hedge timer, whatever clock the trigger is on.
        return np.where(np.isfinite(seen), np.minimum(seen, w.e2e_s), w.e2e_s)

    def project(
        self,
        trigger: Trigger,
        delay_s: float,
        eligible: Bools,
        copy_length: CopyLength,
        budget: Budget | None = None,
    ) -> Screened:
        """Sends a copy to every eligible request still waiting at `delay_s` (shape of `eligible`: (n,)), within the budget."""
        w = self.workload
        late = self.clock(trigger) > delay_s
        due = np.flatnonzero(late & eligible)
        granted = due if budget is None else due[grants(w.arrival_s, due, delay_s, budget)]
        donors, weight = self._match(granted, delay_s)
        lost = weight.sum(axis=1) == 0
        no_donor = int(lost.sum())
        granted, donors, weight = granted[~lost], donors[~lost], weight[~lost]
        copy_ttft, copy_e2e, copy_output = self._transplant(granted, donors, copy_length)
        own_e2e = np.where(w.status[granted] == ERROR, np.inf, w.e2e_s[granted])[:, None]
        own_ttft = np.where(np.isfinite(w.ttft_s[granted]), w.ttft_s[granted], own_e2e[:, 0])[:, None]
        copy_wins = delay_s + (copy_ttft if trigger == "first_token" and self.has_ttft else copy_e2e)
        own_wins = own_ttft if trigger == "first_token" and self.has_ttft else own_e2e
        # A failed primary never wins; the copy may still answer, and the other way round.
        won = (copy_wins < np.where(np.isinf(own_e2e), np.inf, own_wins)) & np.isfinite(copy_e2e)
        e2e = np.where(won, delay_s + copy_e2e, own_e2e)
        ttft = np.minimum(own_ttft, delay_s + copy_ttft)
        return Screened(
            hedged=granted,
            weight=weight,
            e2e_s=e2e,
            ttft_s=np.where(np.isinf(e2e), np.inf, ttft),
            won=won,
            copy_e2e_s=copy_e2e,
            copy_output=copy_output,
            due=len(due),
            refused_budget=len(due) - len(granted) - no_donor,
            ineligible=int((late & ~eligible).sum()),
            no_donor=no_donor,
        )

    def _match(self, rows: Ints, delay_s: float) -> tuple[Ints, Floats]:
        """Up to 16 donors nearest in time to the copy's start: indices (m, 16) and weights (m, 16), 0 where there is none."""
        w, d = self.workload, self._donor
        if not len(rows) or not len(d):
            return np.zeros((len(rows), DONORS), dtype=np.int64), np.zeros((len(rows), DONORS))
        reach = min(_NEIGHBOURS, len(d))
        steps = np.arange(-reach, reach)
        chosen = np.zeros((len(rows), DONORS), dtype=np.int64)
        weight = np.zeros((len(rows), DONORS))
        for part in range(0, len(rows), 20_000):  # bounds memory at 20,000 x 128 candidates
            i = rows[part : part + 20_000]
            start = w.arrival_s[i] + delay_s
            at = np.searchsorted(self._donor_arrival, start)[:, None] + steps[None, :]
            inside = (at >= 0) & (at < len(d))
            j = d[np.clip(at, 0, len(d) - 1)]
            gap = np.abs(w.arrival_s[j] - start[:, None])
            allowed = inside & (j != i[:, None]) & (gap <= HORIZON_S)
            if self.ids_known:
                allowed &= (w.replica[j] != w.replica[i][:, None]) & (w.replica[j] >= 0)
            gap = np.where(allowed, gap, np.inf)
            order = np.argsort(gap, axis=1, kind="stable")[:, :DONORS]
            found = np.isfinite(np.take_along_axis(gap, order, axis=1))
            width = order.shape[1]
            chosen[part : part + len(i), :width] = np.take_along_axis(j, order, axis=1)
            count = found.sum(axis=1, keepdims=True)
            weight[part : part + len(i), :width] = found / np.maximum(count, 1)
        return chosen, weight

    def _transplant(self, rows: Ints, donors: Ints, copy_length: CopyLength) -> tuple[Floats, Floats, Floats]:
        """The copy's own time to first token and to the end, and its output tokens: each (m, 16); inf for a donor that failed."""
        w = self.workload
        failed = w.status[donors] == ERROR
        output = (
            np.broadcast_to(self.output[rows][:, None], donors.shape) if copy_length == "same" else self.output[donors]
        )
        # The copy goes elsewhere and usually loses the primary's prefix-cache hit: it computes the whole prompt.
        own_prompt = np.where(w.prompt_tokens[rows] < 0, 0, w.prompt_tokens[rows]).astype(np.float64)[:, None]
        if self.first_law is not None:
            law = self.first_law
            zero = np.zeros(donors.shape)
            wait = np.maximum(w.ttft_s[donors] - law.seconds(self.uncached[donors], zero), 0.0)
            first = wait + law.seconds(own_prompt + zero, zero)
            decode = np.maximum(w.e2e_s[donors] - w.ttft_s[donors], 0.0)
            if self.tokens_known:
                decode = decode * np.maximum(output - 1.0, 0.0) / np.maximum(self.output[donors] - 1.0, 1.0)
            elif copy_length == "same":
                own = w.e2e_s[rows] - w.ttft_s[rows]
                decode = np.maximum(decode, np.where(np.isfinite(own), own, 0.0)[:, None])
            whole = first + decode
        else:
            law = self.whole_law
            expected = law.seconds(
                self.uncached[donors], self.output[donors] if self.tokens_known else np.zeros(donors.shape)
            )
            mine = law.seconds(
                own_prompt + np.zeros(donors.shape), output if self.tokens_known else np.zeros(donors.shape)
            )
            actual = w.e2e_s[donors]
            # A donor faster than the law is faster in proportion; what it waited beyond the law is added as it is.
            whole = mine * np.minimum(actual / np.maximum(expected, 1e-9), 1.0) + np.maximum(actual - expected, 0.0)
            first = whole
        infinite = np.where(failed, np.inf, 0.0)
        known = output if self.tokens_known else np.full(donors.shape, np.nan)
        return np.where(failed, np.inf, first), whole + infinite, np.where(failed, 0.0, known)


def fit_law(uncached: Floats, output: Floats, seconds: Floats, rows: Bools) -> Law:
    """Trimmed least squares in relative error: slow requests are cut, so that the law is that of ordinary speed.

    Degenerate input has a defined answer: with fewer than 8 rows, or constant tokens, the law is the median.
    """
    use = np.flatnonzero(rows & np.isfinite(seconds) & (seconds > 0))
    if not len(use):
        return Law(0.0, 0.0, 0.0, 0)
    y = seconds[use]
    median = float(np.median(y))
    if len(use) < 8:
        return Law(median, 0.0, 0.0, len(use))
    x = np.column_stack([np.ones(len(use)), uncached[use], output[use]])
    varied = [0, *(k for k in (1, 2) if float(np.ptp(x[:, k])) > 0)]
    keep = np.ones(len(use), dtype=bool)
    solution = np.array([median, 0.0, 0.0])
    for _ in range(12):
        scale = 1.0 / np.maximum(y[keep], 0.05 * median)
        columns = [k for k in varied if k == 0 or solution[k] >= 0]
        design = x[keep][:, columns]
        design *= scale[:, None]
        part, *_ = np.linalg.lstsq(design, y[keep] * scale, rcond=None)
        del design  # of a million rows 24 MB, and it is not needed beside the next one
        solution = np.zeros(3)
        solution[columns] = part
        predicted = np.maximum(x @ solution, 0.02 * median)
        error = np.log(y / predicted)
        middle = float(np.median(error))
        spread = 1.4826 * float(np.median(np.abs(error - middle)))
        now = np.abs(error - middle) <= max(3.0 * spread, 0.05)
        if bool(np.array_equal(now, keep)):
            break
        keep = now
    solution = np.maximum(solution, 0.0)
    if not np.any(x @ solution > 0):
        solution[0] = median
    return Law(float(solution[0]), float(solution[1]), float(solution[2]), int(keep.sum()))


def grants(arrival_s: Floats, due: Ints, delay_s: float, budget: Budget) -> Bools:
    """Which of the due requests get a token, shape (len(due),): the bucket fills with arrivals and is asked at arrival + delay."""
    asked = arrival_s[due] + delay_s
    paid_in = np.searchsorted(arrival_s, asked, side="right")
    allowed = np.zeros(len(due), dtype=bool)
    tokens, seen = float(budget.burst), 0
    for k in range(len(due)):
        # Between two requests for a token there are only payments, so the cap may be applied once.
        tokens = min(budget.burst, tokens + budget.ratio * (int(paid_in[k]) - seen))
        seen = int(paid_in[k])
        if tokens >= 1.0:
            tokens -= 1.0
            allowed[k] = True
    return allowed


def _work_units(workload: Workload) -> Floats:
    """Output tokens as float, NaN unknown; response bytes stand in where no row has tokens (any unit of length serves)."""
    tokens = np.where(workload.completion_tokens >= 0, workload.completion_tokens, np.nan).astype(np.float64)
    if len(tokens) and not np.isfinite(tokens).any():
        return np.where(workload.response_bytes >= 0, workload.response_bytes, np.nan).astype(np.float64)
    return tokens
