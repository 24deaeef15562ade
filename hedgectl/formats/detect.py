"""Says which format fits a log and why; refuses when two fit, and names logs that cannot answer (aggregates, metrics pages).

A format's ``detect`` is a list of terms that must all hold for a record (``terms.py``). The format whose terms hold for
most records of the sample is taken; a second one that holds for at least half as many makes the choice the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hedgectl.errors import InputError, NoRequests, UsageError
from hedgectl.formats.aggregates import refuse_aggregates, refuse_summary
from hedgectl.formats.catalogue import Format, load_all
from hedgectl.formats.sample import Sample, sample_of
from hedgectl.formats.terms import in_words, terms

RIVAL = 0.5
"""A second format that fits this share of the records the best one fits is a rival, and the choice is refused."""

_LINE_START = 4000
"""Characters of a line that the terms of a text format see."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The format that fits, the share of sample records its terms hold for, and the evidence in words."""

    format: Format
    share: float
    why: str


def _matched(fmt: Format, sample: Sample) -> tuple[int, int]:
    """How many records (lines, for a text format) fit, out of how many."""
    wanted = terms(fmt.detect)
    if not wanted:
        return 0, 0
    if fmt.input == "text":
        # a term that looks back and forth takes minutes on a line of a megabyte, and such a line is no access log
        return sum(all(t.holds({}, line[:_LINE_START]) for t in wanted) for line in sample.lines), len(sample.lines)
    if fmt.input != "json" and fmt.input != sample.container:
        return 0, len(sample.records)
    pairs = zip(sample.records, sample.texts, strict=True)
    return sum(all(t.holds(r, x) for t in wanted) for r, x in pairs), len(sample.records)


def detect(
    sample: Sample | Sequence[str], *, where: str | None = None, formats: Mapping[str, Format] | None = None
) -> Detection:
    """The one format that fits the sample (or the first lines of a file).

    Raises NoRequests if the log is empty; InputError if it holds aggregates or a metrics page, or fits no format; UsageError if two fit.
    """
    if not isinstance(sample, Sample):
        sample = sample_of(sample)
    if not sample.lines and not sample.records:
        raise NoRequests(
            "the log is empty", where=where, hint="no record means no answer; check the path and the export"
        )
    refuse_aggregates(sample, where=where)
    known = load_all() if formats is None else formats
    # where each line is an object it is searched as text only if nothing else fits: that takes longer than all the rest
    objects = sample.container == "json" and len(sample.records) >= len(sample.lines)
    counts = {n: _matched(fmt, sample) for n, fmt in known.items() if not (objects and fmt.input == "text")}
    if objects and not any(hit for hit, _ in counts.values()):
        counts = {n: _matched(fmt, sample) for n, fmt in known.items() if fmt.input == "text"}
    best = max((hit for hit, _ in counts.values()), default=0)
    fits = [name for name, (hit, _) in counts.items() if hit and hit >= best * RIVAL]
    if not fits:
        refuse_summary(sample, where=where)
        raise InputError(
            "no format fits this log",
            where=where,
            hint=f"{_near_miss(sample, known)}hedgectl formats --detect FILE writes a mapping to start from",
        )
    if len(fits) > 1 and (whole := _whole(fits, known, sample)):
        fits = [whole]
    if len(fits) > 1:
        fits.sort(key=lambda n: (-counts[n][0], n))
        raise UsageError(
            f"more than one format fits this log: {', '.join(f'{n} ({counts[n][0]} of {counts[n][1]})' for n in fits)}",
            where=where,
            hint=f"name it: --format {fits[0]}",
        )
    fmt = known[fits[0]]
    hit, of = counts[fits[0]]
    return Detection(
        fmt, hit / of, f"{hit} of {of} {'lines' if fmt.input == 'text' else 'records'} have {in_words(fmt.detect)}"
    )


def _whole(fits: Sequence[str], known: Mapping[str, Format], sample: Sample) -> str | None:
    """Of formats NAME and NAME_part that fit different records of one log: NAME, which knows the lines of its parts."""
    base = min(fits, key=len)
    if not all(name == base or name.startswith(f"{base}_") for name in fits):
        return None
    parsed = [terms(known[name].detect) for name in fits]
    pairs = (
        zip(sample.records, sample.texts, strict=True)
        if known[base].input != "text"
        else (({}, line) for line in sample.lines)
    )
    apart = all(sum(all(t.holds(r, x) for t in wanted) for wanted in parsed) <= 1 for r, x in pairs)
    return base if apart else None


def _near_miss(sample: Sample, known: Mapping[str, Format]) -> str:
    """What the closest format lacks, in words; empty if nothing is close."""
    best: tuple[int, str, list[str]] | None = None
    for name, fmt in known.items():
        if fmt.input == "text" or not sample.records:
            continue
        wanted = [t for t in terms(fmt.detect) if t.kind == "present"]
        missing = [t for t in wanted if not any(t.holds(r, "") for r in sample.records)]
        if wanted and len(missing) < len(wanted) and (best is None or len(wanted) - len(missing) > best[0]):
            best = (len(wanted) - len(missing), name, [" or ".join(t.names) for t in missing])
    if best is None or not best[2]:
        return ""
    return f"closest is {best[1]}, which also needs {', '.join(best[2])}; "
