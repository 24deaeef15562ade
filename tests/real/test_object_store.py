"""Logs and folders in an object store that speaks S3 on loopback: the same answers as in files, and clear errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ingest_logs as logs
import pytest

pytestmark = pytest.mark.real

COUNTS = ("lines", "accepted", "duplicates", "not_requests", "rejected")


class Store:
    """A server of its own, and hedgectl with the extra, pointed at it."""

    def __init__(self, python: str) -> None:
        self._python = python
        self.server = subprocess.Popen(
            [python, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.server.stdout is not None
        said = iter(self.server.stdout.readline, "")
        self.url = next(m[0] for line in said if (m := re.search(r"http://127\.0\.0\.1:\d+", line)))

    def put(self, name: str, body: bytes = b"") -> None:
        """A bucket, or an object in one."""
        httpx.put(f"{self.url}/{name}", content=body).raise_for_status()

    def hedgectl(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return subprocess.run(
            [self._python, "-m", "hedgectl", *argv],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={k: v for k, v in {**os.environ, **own, **env}.items() if v},
        )

    def ingested(self, *argv: str) -> dict[str, Any]:
        done = self.hedgectl("ingest", *argv, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = Store(os.environ["HEDGECTL_RAY_PYTHON"])
    try:
        made.put("logs")
        made.put("fleet")
        for k, text in enumerate(texts()):
            made.put(f"logs/gateway/day=1/gw-{k}.jsonl", text.encode())
        yield made
    finally:
        made.server.kill()
        made.server.wait()


def texts() -> list[str]:
    """Three files; each repeats twenty requests of the one before and ends in a line that is none."""
    return [logs.lines(range(k * 500, k * 500 + 520)) + "{cut\n" for k in range(3)]


def test_a_folder_in_a_store_is_one_on_a_disk(store: Store, tmp_path: Path) -> None:
    files = []
    for k, text in enumerate(texts()):
        files.append(tmp_path / f"gw-{k}.jsonl")
        files[-1].write_text(text)
    here = store.ingested(*map(str, files), "--out", str(tmp_path / "out"))
    there = store.ingested("s3://logs/gateway/", "--out", "s3://fleet/out")
    assert [there["totals"][key] for key in COUNTS] == [1563, 1520, 40, 0, 3]
    assert [there[key] for key in ("totals", "window", "coverage")] == [
        here[key] for key in ("totals", "window", "coverage")
    ]
    documents = [
        store.hedgectl("stats", "--from", folder, "-o", "json").stdout
        for folder in (str(tmp_path / "out"), "s3://fleet/out")
    ]
    assert len(documents[0]) > 500
    assert documents[0] == documents[1]


def test_a_second_run_reads_what_is_new(store: Store) -> None:
    store.ingested("s3://logs/gateway/", "--out", "s3://fleet/twice")
    again = store.ingested("s3://logs/gateway/**/gw-*.jsonl", "--out", "s3://fleet/twice")
    assert [again["totals"][key] for key in COUNTS] == [0] * 5
    store.put("logs/more/gw-9.jsonl", logs.lines(range(5000, 5010)).encode())
    more = store.ingested("s3://logs/gateway/", "s3://logs/more/", "--out", "s3://fleet/twice")
    assert (more["totals"]["accepted"], more["totals"]["requests"]) == (10, 1530)


def test_logs_are_analysed_where_they_lie(store: Store) -> None:
    done = store.hedgectl("breakdown", "s3://logs/gateway/", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["window"]["requests"] == 1520


@pytest.mark.parametrize(
    ("argv", "env", "code", "says"),
    [
        (("breakdown", "--from", "s3://nobody/out"), {}, 4, "no such bucket"),
        (("ingest", "s3://nobody/x.jsonl", "--out", "s3://fleet/x"), {}, 4, "no such bucket"),
        (("ingest", "s3://logs/gateway/", "--out", "s3://nobody/x"), {}, 4, "no such bucket"),
        (("breakdown", "--from", "s3://fleet/empty"), {}, 4, "hedgectl ingest LOG... --out s3://fleet/empty"),
        (("breakdown", "s3://logs/none/*.gz"), {}, 4, "no such object: s3://logs/none/*.gz"),
        (
            ("breakdown", "--from", "s3://fleet/out"),
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": "/nonexistent"},
            1,
            "credentials, region and AWS_ENDPOINT_URL",
        ),
        (
            ("breakdown", "--from", "s3://fleet/out"),
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"},
            1,
            "AWS_ENDPOINT_URL",
        ),
    ],
)
def test_what_is_wrong_is_said(store: Store, argv: tuple[str, ...], env: dict[str, str], code: int, says: str) -> None:
    done = store.hedgectl(*argv, **env)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("hedgectl: error: ")


def test_rights_that_lack_are_said(store: Store) -> None:
    """From here on the server looks at who asks: nobody it knows."""
    httpx.post(f"{store.url}/moto-api/reset-auth", content=b"0").raise_for_status()
    done = store.hedgectl("breakdown", "--from", "s3://fleet/out")
    assert done.returncode == 1, done.stderr
    assert "the store refuses" in done.stderr
    assert "rights of these credentials" in done.stderr
