"""What a reader must know about a selection before its numbers: gaps, doubts and assumptions, as the notes of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgectl.prefill import PrefillFit


def note(code: str, text: str, *, level: str = "info", share: float | None = None) -> dict[str, Any]:
    """The shared note piece: `code` is stable, `text` is for people."""
    return {"code": code, "level": level, "share": None if share is None else round(share, 6), "text": text}


def doubts(notes: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts of those notes that are warnings: what --strict minds."""
    return [str(n["text"]) for n in notes if n["level"] in ("warning", "error")]


def of_skew(share: float, behind: Mapping[str | None, int], telling: bool) -> list[dict[str, Any]]:
    """First tokens that stand before their start; the fields are those of `decompose.Skew`."""
    listed = [f"{name or 'a replica without a name'} at least {ns / 1e6:.0f} ms" for name, ns in behind.items()]
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    elsewhere = ", and cross-clock with an offset that is not verified everywhere else" if telling else ""
    text = (
        f"{share:.1%} of rows have a first token before the start, so it is timed by another clock (behind: "
        f"{', '.join(listed[:3])}{more}): their TTFT is unknown{elsewhere}"
    )
    return [note("clock_skew", text, level="warning", share=share)]


def of_facts(facts: Mapping[str, Any], fits: Mapping[str, PrefillFit]) -> list[dict[str, Any]]:
    """`facts`: the counts of queries/decompose/facts; `fits`: the prefill law of each model, good or refused."""
    notes: list[dict[str, Any]] = []
    n, logged = facts["requests"], max(facts["ttft_logged"], 1)

    def add(code: str, level: str, count: int, of: int, text: Callable[[str], str]) -> None:
        if count:
            share = count / max(of, 1)
            notes.append(note(code, text(f"{share:.0%}" if share >= 0.005 else str(count)), level=level, share=share))

    if n == 0:
        notes.append(note("no_requests", "no request lies in this selection", level="warning"))
    outside = facts["requests_read"] - n
    add(
        "outside_selection",
        "info",
        outside,
        facts["requests_read"],
        lambda s: f"{outside} requests beside the window lie outside",
    )
    add(
        "ttft_equals_e2e",
        "warning",
        facts["ttft_equals_e2e"],
        logged,
        lambda s: f"{s} of rows log the first token at the end: their TTFT is unknown",
    )
    add(
        "ttft_is_zero",
        "warning",
        facts["ttft_is_zero"],
        logged,
        lambda s: f"{s} of rows log the first token at the start: their TTFT is unknown",
    )
    add(
        "ttft_after_end",
        "warning",
        facts["ttft_after_end"],
        logged,
        lambda s: f"{s} of rows log the first token after the end: their TTFT is unknown",
    )
    add(
        "not_streamed",
        "info",
        facts["not_streamed"],
        logged,
        lambda s: f"{s} of logged TTFTs belong to whole answers, which have no first token on the wire",
    )
    streamed, missing = facts["streamed"], facts["streamed_without_ttft"]
    add(
        "ttft_unknown",
        "warning",
        missing,
        streamed,
        lambda s: f"the first token is known for {streamed - missing} of {streamed} streamed answers",
    )
    add(
        "bad_parts",
        "warning",
        facts["bad_parts"],
        facts["attempts"],
        lambda s: f"{s} of rows have a negative or too long part: not used (hedgectl check lists them)",
    )
    bad = facts["bad_costs"]
    add(
        "bad_costs",
        "warning",
        bad,
        facts["attempts"],
        lambda s: f"{bad:,} costs that cannot be used: below 0, or no amount of money (hedgectl check lists them)",
    )
    add(
        "negative_other",
        "warning",
        facts["negative_other"],
        n,
        lambda s: f"{s} of rows have parts that add up to more than e2e: `other` is negative there",
    )
    add(
        "request_id_reused",
        "info",
        facts["reused_ids"],
        n,
        lambda s: f"{s} of requests carry the id of an earlier, answered request: counted as requests of their own",
    )
    add("ok_without_e2e", "warning", facts["ok_without_e2e"], n, lambda s: f"{s} of answers have no e2e time")
    add("without_time", "warning", facts["without_time"], n, lambda s: f"{s} of requests have no arrival time")
    add(
        "sampled",
        "warning",
        facts["weighted"],
        n,
        lambda s: "the log is sampled: rows are weighted, and the load it shows is too low",
    )
    if facts["observers"] and facts["observers"] > 1:
        notes.append(note("several_observers", "times of several observers are mixed: compare them by --by observer"))
    if not fits and facts["ttft_with_prompt"] and not facts["queue_logged"] and not facts["cached_logged"]:
        text = (
            "TTFT is not divided into queue and prefill: the log has no cached tokens. If the engines keep no prefix "
        )
        notes.append(note("cached_tokens_unknown", text + "cache, say so: prefix_cache = false under [engine]"))
    for model, fitted in fits.items():
        of = f" of {model}" if model else ""
        if fitted.good:
            notes.append(
                note(
                    "prefill_fitted",
                    f"prefill{of} fitted on {fitted.arrivals} idle arrivals: {fitted.base_ns / 1e6:.1f} ms + "
                    f"{fitted.per_token_ns / 1e3:.2f} us a token (error {fitted.error:.1%}); queue is the rest of TTFT",
                )
            )
        elif fitted.refused != "too_few_idle_arrivals":
            notes.append(
                note("prefill_not_fitted", f"TTFT{of} is not divided into queue and prefill: {fitted.refused}")
            )
    return notes
