"""A minute of damage to the sample logs: whatever the bytes are, no traceback, every record accounted for, no row beyond what was accepted.

The gate takes the same damage each time, so that it never depends on luck; HEDGECTL_FUZZ_SEED=now looks for more, prints its seed
for a second run, and HEDGECTL_FUZZ_SECONDS sets the length.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from format_rows import read_text, samples
from log_variants import made

from hedgectl import store
from hedgectl.errors import HedgectlError
from hedgectl.formats.catalogue import load_all
from hedgectl.ingest import ingest

pytestmark = pytest.mark.real

_MAX_BYTES = 60_000


def damaged(data: bytes, luck: random.Random) -> bytes:
    """A few bytes changed, taken out, put in or repeated."""
    held = bytearray(data)
    for _ in range(luck.choice([0, 1, 1, 2, 5])):
        at = luck.randrange(len(held) + 1)
        piece = bytes(held[at : at + luck.choice([1, 3, 40, 400])])
        what = luck.choice(["flip", "drop", "insert", "repeat", "swap numbers"])
        if what == "flip" and piece:
            held[at] ^= 1 << luck.randrange(8)
        elif what == "drop":
            del held[at : at + len(piece)]
        elif what == "insert":
            held[at:at] = luck.choice(
                [
                    b"\0" * 9,
                    b"\xff\xfe",
                    b'"',
                    b"{",
                    b"[" * 3000,
                    b"\n",
                    b"\r",
                    b"1e999",
                    b"-9223372036854775809",
                    b"\xf0\x9f\x98",
                ]
            )
        elif what == "repeat":
            held[at:at] = piece
        else:
            held[at : at + len(piece)] = bytes(luck.choice(b"0123456789") if 48 <= b <= 57 else b for b in piece)
        if not held:
            held += b"\n"
    return bytes(held)


def test_a_minute_of_damaged_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = os.environ.get("HEDGECTL_FUZZ_SEED", "20261129")
    seed = time.time_ns() % 2**32 if asked == "now" else int(asked)
    end = time.monotonic() + float(os.environ.get("HEDGECTL_FUZZ_SECONDS", "60"))
    with capsys.disabled():
        print(f"\nfuzz of the readers: HEDGECTL_FUZZ_SEED={seed}")
    luck = random.Random(seed)
    names = [name for name in load_all() if samples(name)]
    runs = refused = 0
    while time.monotonic() < end:
        runs += 1
        name = luck.choice(names)
        folder = tmp_path / str(runs)
        folder.mkdir()
        for path in luck.sample(samples(name), 1):
            data = read_text(path).encode()
            if len(data) > _MAX_BYTES:
                continue
            for number in range(3):
                for place, part in enumerate(made(damaged(data, luck), luck, number).parts):
                    (folder / f"{number} {place}").write_bytes(damaged(part, luck) if luck.random() < 0.3 else part)
        try:
            # named or recognised: damage may hide what a log is
            with store.connect(None, memory_limit="512MB") as opened:
                document = ingest(opened, [str(folder)], format=luck.choice([name, name, None]), join=True)
                written = opened.con.execute("SELECT count(DISTINCT (file_id, line, record)) FROM attempt").fetchone()
        except HedgectlError:
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"HEDGECTL_FUZZ_SEED={seed}, run {runs}, {name}") from error
        for file in [*document["files"], document["totals"]]:
            counted = sum(file[key] for key in ("accepted", "duplicates", "not_requests", "rejected"))
            assert file["lines"] == counted, (seed, runs, name, file)
        assert written is not None
        assert written[0] <= document["totals"]["accepted"], (seed, runs, name)
    with capsys.disabled():
        print(f"{runs} runs, {refused} of them refused as a whole")
    assert refused < runs
