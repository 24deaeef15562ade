"""One call of ingest: files go in one after another, batches of them come out as transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from hedgectl import sql, tasks
from hedgectl.errors import HedgectlError, InputError
from hedgectl.formats.catalogue import Format, load_all, with_unit
from hedgectl.ingest import document
from hedgectl.ingest.counts import Counts, Piece
from hedgectl.ingest.ledger import HEAD_BYTES, Entry, Ledger, copy_of, fingerprint
from hedgectl.ingest.merge import merge
from hedgectl.ingest.overlapping import overlap, overlaps
from hedgectl.ingest.reading import Opened, open_file
from hedgectl.ingest.recognise import Seen, recognise, unknown_fields
from hedgectl.ingest.stage import Stage, Staged
from hedgectl.ingest.steps import steps
from hedgectl.lines import shown
from hedgectl.store import Store

BATCH_FILES = 1000
BATCH_BYTES = 256 << 20  # at most 1 GB is promised; a quarter keeps the stage small

Progress = Callable[[str, int, int | None], None]
"""Called with path, bytes read so far (decompressed) and size on disk (None for stdin)."""

_NOTHING = fingerprint(b"")


@dataclass(slots=True)
class _Slot:
    """A file of the current batch."""

    entry: Entry
    report: document.File
    damage: list[str] = field(default_factory=list)
    withdrawn: Entry | None = None
    before: Entry | None = None  # the part of the file in the batch before: its counts come in while this one is read


class Run:
    """One call of ingest: files go in one after another, batches come out as transactions."""

    def __init__(
        self,
        store: Store,
        *,
        chosen: Format | None,
        tz: str | None,
        max_reject: float | None,
        join: bool,
        unit: str | None,
        progress: Progress | None,
        file_ids: Mapping[str, int],
    ) -> None:
        self._store = store
        self._file_ids = file_ids
        self._chosen = chosen
        self._max_reject = max_reject
        self._join = join
        self._unit = unit
        self._joined = overlaps(store.con)  # these were joined when they were read
        self._progress = progress
        self._ledger = Ledger(store.con)
        self._reader = store.con.cursor()  # reads files while a batch is merged
        self._stage = Stage(store, tz=tz)
        self._merger = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hedgectl-merge")
        self._merging: Future[list[Entry]] | None = None
        self._seen: Seen = {}
        self._here: dict[int, document.File] = {}  # by file_id: what this run has read to its end
        self._pending: dict[int, Entry] = {}  # those of them that are not in the database yet
        self._slots: list[_Slot] = []
        self._bytes = 0
        self.files: list[document.File] = []
        self.notes: Counter[str] = Counter()

    def close(self) -> None:
        """Stops the threads."""
        self._merger.shutdown(wait=True, cancel_futures=True)
        self._stage.close()
        self._reader.close()

    def read(self, path: str) -> None:
        """Reads one file into the current batch; what makes it unusable is told in its report."""
        report = document.File(shown(path))
        self.files.append(report)
        try:
            opened = open_file(path, self._ledger)
        except OSError as error:
            report.failure = InputError(f"cannot be read: {error.strerror or error}", where=report.path)
            return
        except HedgectlError as error:
            report.failure = error
            return
        try:
            self._read(opened, report)
        except OSError as error:
            report.failure = InputError(f"reading stopped: {error.strerror or error}", where=report.path)
        finally:
            opened.close()

    def _read(self, opened: Opened, report: document.File) -> None:
        if opened.known is not None and self._is_done(opened, opened.known, report):
            return
        try:
            recognise(opened, chosen=self._chosen, con=self._reader, seen=self._seen)
        except HedgectlError as error:
            report.failure = _damaged(opened) or error
            return
        fmt = opened.format
        assert fmt is not None
        if self._unit is not None and fmt.name in load_all():
            fmt = opened.format = with_unit(fmt, self._unit)
        report.format, report.why, report.resumed = fmt.name, opened.why, opened.known is not None
        report.fields = unknown_fields(opened)
        slot = self._slot(opened, fmt, report)
        tail, unended = opened.tail, 0
        for step in steps(opened, self._reader):
            self._stage.add(fmt, Piece(len(self._slots) - 1, step))
            if step.open:
                slot.entry.open_bytes += step.size
                unended += step.size
            else:
                slot.entry.last_line = max(slot.entry.last_line, step.last_line)
            if step.raw and not step.open:
                # documents and Parquet files are passed as a whole, whatever was read before
                tail = ((tail if opened.mode in ("lines", "csv") else b"") + step.raw[-HEAD_BYTES:])[-HEAD_BYTES:]
                slot.entry.bytes_read, slot.entry.open_bytes = step.end, step.rest
                whole = len(tail) == slot.entry.fingerprint_bytes and tail == opened.head
                slot.entry.tail_fingerprint = slot.entry.fingerprint if whole else fingerprint(tail)
            self._bytes += step.size
            report.bytes += step.size
            if self._progress is not None:
                self._progress(opened.path, report.bytes, opened.size)
            if self._bytes >= BATCH_BYTES and self._max_reject is None and fmt.one_row != "part":
                self.flush()
                slot = self._continue(slot)
        slot.damage = list(opened.damage.reasons)
        # without the closing brackets of a document, which move when it grows; a last line without its end only gets longer
        sure = min(len(opened.head), slot.entry.bytes_read + unended) or len(opened.head)
        slot.entry.begins(opened.head[:sure])
        if slot.entry.bytes_read + slot.entry.open_bytes:
            self._here[slot.entry.file_id], self._pending[slot.entry.file_id] = report, slot.entry
            self._ledger.put(slot.entry)

    def _is_done(self, opened: Opened, known: Entry, report: document.File) -> bool:
        """Whether nothing is to be read of a file that the ledger knows: it has nothing new, or is a copy of a file of this run."""
        report.file_id = known.file_id
        other = self._here.get(known.file_id)
        if other is not None and opened.copied:
            report.format, report.same_as = known.format, other
            return True
        if other is not None and known.file_id in self._pending:
            if not other.resumed:
                # it begins like a file of this batch and goes on: a log of its own
                opened.restart()
                opened.known, opened.same = None, False
                return False
            # both go on where a file of an earlier run ended
            if self._max_reject is not None:
                hint = "read it in a second run, or leave out --max-reject"
                report.failure = InputError(f"goes on like {other.path}, and further", where=report.path, hint=hint)
                return True
            self.flush()
            self.settle()
        report.already, report.format = opened.same, known.format if opened.same else None
        return opened.same

    def _slot(self, opened: Opened, fmt: Format, report: document.File) -> _Slot:
        # a limit on rejects is judged on the whole: then everything is one batch
        if (len(self._slots) >= BATCH_FILES or self._bytes >= BATCH_BYTES) and self._max_reject is None:
            self.flush()
        if opened.known is not None:
            entry = copy_of(opened.known)
            slot = _Slot(entry, report)
            if any(entry.open_counts) or entry.open_bytes:
                slot.withdrawn = opened.known
                entry.accepted, entry.duplicates, entry.not_requests, entry.rejected = (
                    total - part
                    for total, part in zip(
                        (entry.accepted, entry.duplicates, entry.not_requests, entry.rejected),
                        entry.open_counts,
                        strict=True,
                    )
                )
                entry.lines -= sum(entry.open_counts)
                entry.open_bytes, entry.open_counts = 0, [0, 0, 0, 0]
            entry.path = opened.path
        else:
            entry = Entry(
                self._file_ids.get(opened.path) or self._ledger.new_id(),
                opened.path,
                fmt.name,
                "",
                0,
                0,
                _NOTHING,
            )
            entry.begins(opened.head)
            slot = _Slot(entry, report)
        self._slots.append(slot)
        return slot

    def _continue(self, slot: _Slot) -> _Slot:
        """The rest of a file that is larger than a batch."""
        slot = _Slot(copy_of(slot.entry), slot.report, before=slot.entry)
        self._slots.append(slot)
        return slot

    def flush(self) -> None:
        """Hands the batch over to be merged, while the next one is read."""
        # first the rest of this batch to the threads, which would stand idle while the one before is merged
        staged, slots = self._stage.take(), self._slots
        self._slots, self._bytes = [], 0
        self.settle()
        self._merging = self._merger.submit(self._merge, staged, slots)
        if tasks.threads() == 1:
            self.settle()  # merging beside the reading would take a second core

    def settle(self) -> None:
        """Waits for the batch that is being merged; from then on its files are known. Raises what went wrong with it."""
        merging, self._merging = self._merging, None
        if merging is not None:
            for entry in merging.result():
                # else the rest of the file has been read meanwhile
                if self._pending.get(entry.file_id, entry) is entry:
                    self._pending.pop(entry.file_id, None)
                    self._ledger.put(entry)

    def _merge(self, staged: Staged, slots: list[_Slot]) -> list[Entry]:
        """Commits a batch: rows, rejects and ledger in one transaction. Returns what the ledger got."""
        counts = staged.counts()
        entries: dict[int, Entry] = {}
        if slots:
            ids = [slot.entry.file_id for slot in slots]
            notes: Counter[str] = Counter()
            for number, slot in enumerate(slots):
                count = counts.setdefault(number, Counts())
                for reason in slot.damage:
                    count.reject(slot.entry.last_line + 1, reason, "", is_open=True)
            with self._store.transaction() as con:
                _withdraw(con, slots)
                duplicates = merge(con, staged, ids, counts, notes)
                for number, slot in enumerate(slots):
                    slot.report.add(counts[number], duplicates.get(number, 0))
                    self._enter(slot, counts[number], duplicates.get(number, 0))
                entries = {slot.entry.file_id: slot.entry for slot in slots}
                for slot in slots:
                    slot.report.check()
                self._refuse()
                if not self._join and counts:
                    self._refuse_overlap(con)
                self._ledger.write(con, [e for e in entries.values() if e.lines])
            self.notes.update(notes)
            self.notes["bad_utf8"] += sum(count.bad_utf8 for count in counts.values())
            self.notes["cut_file"] += len(staged.cut)
            self.notes["field_twice"] += sum(count.named_twice for count in counts.values())
        self._stage.clear(staged)
        self._ledger.batch_id += 1
        return [entry for entry in entries.values() if entry.lines]

    def _refuse(self) -> None:
        """Raises InputError when the limit on rejects is passed."""
        if self._max_reject is None:
            return
        rejected = sum(f.rejected for f in self.files)
        lines = sum(f.lines for f in self.files)
        if lines and rejected / lines > self._max_reject:
            raise document.too_many_rejects(self.files, self._max_reject)

    def _refuse_overlap(self, con: Any) -> None:
        """Raises UsageError if two formats have seen the same time: their requests would be counted twice."""
        for names, (a, b) in overlaps(con).items():
            if names in self._joined:
                continue
            low = max((x.low for x in (a, b) if x.low is not None), default=None)
            high = min((x.high for x in (a, b) if x.high is not None), default=None)
            raise overlap((a.format, a.observer), (b.format, b.observer), low, high)

    def _enter(self, slot: _Slot, count: Counts, duplicates: int) -> None:
        entry = slot.entry
        if slot.before is not None:
            entry.count_from(slot.before)
        entry.lines += count.lines + duplicates
        entry.accepted += count.accepted
        entry.duplicates += duplicates
        entry.not_requests += sum(count.not_requests.values())
        entry.rejected += count.rejected
        entry.open_counts = list(count.open_counts)
        entry.batch_id = self._ledger.batch_id


def _withdraw(con: Any, slots: Sequence[_Slot]) -> None:
    for slot in slots:
        if slot.withdrawn is not None:
            values = {"file": slot.withdrawn.file_id, "line": slot.withdrawn.last_line}
            for name in ("withdraw", "withdraw_tools", "withdraw_rejects"):
                con.execute(sql.text(f"ingest/{name}"), values)


def _damaged(opened: Opened) -> InputError | None:
    """Why nothing can be made of a file, if that is its archive and not what is in it."""
    if not {"cut_archive", "damaged_archive"} & set(opened.damage.reasons):
        return None
    how = "cut off" if "cut_archive" in opened.damage.reasons else "damaged"
    return InputError(
        f"the archive is {how} before its first whole record",
        where=opened.path,
        hint="fetch the file again; gzip -t, zstd -t or xz -t says whether it is whole",
    )
