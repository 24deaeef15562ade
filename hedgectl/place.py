"""Where objects lie: a local folder or ``s3://BUCKET/PREFIX``. Whole objects only: nobody ever sees half of one. [owns boto3]

boto3 and not a file system layer on top: it brings every way in which a cloud hands out credentials, and whole objects are
all that is needed here. DuckDB's own S3 reader would be fetched from a network at run time.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Protocol

from hedgectl.errors import HedgectlError, InputError, UsageError

SCHEME = "s3://"
_SPOOL_BYTES = 64 << 20


class Place(Protocol):
    """A flat set of named objects; names are relative and use ``/``."""

    @property
    def url(self) -> str:
        """What a user calls it."""

    def names(self, under: str) -> list[str]:
        """The names that begin with ``under``, sorted."""

    def sizes(self, under: str) -> dict[str, int]:
        """Bytes of the objects whose names begin with ``under``."""

    def read(self, name: str) -> bytes:
        """All bytes of an object. Raises InputError if it is not there."""

    def write(self, name: str, data: bytes) -> None:
        """Writes or replaces an object in one step."""

    def write_new(self, name: str, data: bytes) -> bool:
        """Writes an object unless there is one; whether it was written. Of several writers one gets True."""

    def workspace(self) -> contextlib.AbstractContextManager[Path]:
        """An empty folder on this machine that is gone afterwards; :meth:`add` moves files out of it."""

    def add(self, name: str, file: Path) -> None:
        """Takes a file of a workspace over as an object."""

    def local(self, name: str, folder: Path) -> Path:
        """A file on this machine with the object's bytes, in ``folder`` if it has to be fetched."""


def place(url: str) -> Place:
    """The place a user names. Raises UsageError for an address that is none, or without boto3 for ``s3://``."""
    if is_remote(url):
        bucket, prefix = _split(url)
        return _Bucket(bucket, prefix.strip("/") + "/" if prefix.strip("/") else "")
    if "://" in url:
        raise UsageError(f"{url} is no place hedgectl knows", hint="a folder, or s3://BUCKET/PREFIX")
    return _Folder(Path(url))


def is_remote(path: str) -> bool:
    """Whether a path names objects in a store."""
    return path.startswith(SCHEME)


@dataclass(frozen=True, slots=True)
class _Folder:
    root: Path

    @property
    def url(self) -> str:
        return str(self.root)

    def names(self, under: str) -> list[str]:
        found = []
        for path, folders, files in os.walk(self.root / under):
            folders[:] = [f for f in folders if not f.startswith(".")]
            found += [Path(path, f).relative_to(self.root).as_posix() for f in files if not f.startswith(".")]
        return sorted(found)

    def sizes(self, under: str) -> dict[str, int]:
        return {name: size(str(self.root / name)) for name in self.names(under)}

    def read(self, name: str) -> bytes:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError as error:
            raise _gone(self.url, name) from error

    def write(self, name: str, data: bytes) -> None:
        with self.workspace() as folder:
            self.add(name, _kept(folder, data))

    def write_new(self, name: str, data: bytes) -> bool:
        target = self._target(name)
        with self.workspace() as folder:
            try:
                # a link and not a rename: it fails if the name is taken
                os.link(_kept(folder, data), target)
            except FileExistsError:
                return False
        return True

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        # inside the place, so that taking a file over is a rename
        self.root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".work-", dir=self.root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def add(self, name: str, file: Path) -> None:
        with open(file, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(file, self._target(name))

    def local(self, name: str, folder: Path) -> Path:
        found = self.root / name
        if not found.exists():
            raise _gone(self.url, name)
        return found

    def _target(self, name: str) -> Path:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


def _kept(folder: Path, data: bytes) -> Path:
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    return Path(stream.name)


def _gone(url: str, name: str) -> InputError:
    return InputError(
        f"{name} is missing", where=url, hint="something else removed it: ingest the logs into a new folder"
    )


@dataclass(frozen=True, slots=True)
class _Bucket:
    bucket: str
    prefix: str

    @property
    def url(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def names(self, under: str) -> list[str]:
        return [key.removeprefix(self.prefix) for key, _ in _keys(self.bucket, self.prefix + under)]

    def sizes(self, under: str) -> dict[str, int]:
        return {key.removeprefix(self.prefix): size for key, size in _keys(self.bucket, self.prefix + under)}

    def read(self, name: str) -> bytes:
        with _explained(self._where(name)):
            found: bytes = _client().get_object(Bucket=self.bucket, Key=self.prefix + name)["Body"].read()
            return found

    def write(self, name: str, data: bytes) -> None:
        with _explained(self._where(name)):
            _client().put_object(Bucket=self.bucket, Key=self.prefix + name, Body=data)

    def write_new(self, name: str, data: bytes) -> bool:
        with _explained(self._where(name)):
            try:
                _client().put_object(Bucket=self.bucket, Key=self.prefix + name, Body=data, IfNoneMatch="*")
            except _botocore().exceptions.ClientError as error:
                # the second code: another writer is at it this very moment
                if _code(error) in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
                    return False
                raise
        return True

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="hedgectl-") as folder:
            yield Path(folder)

    def add(self, name: str, file: Path) -> None:
        with _explained(self._where(name)):
            _client().upload_file(str(file), self.bucket, self.prefix + name)

    def local(self, name: str, folder: Path) -> Path:
        target = folder / name.replace("/", "_")
        with _explained(self._where(name)):
            _client().download_file(self.bucket, self.prefix + name, str(target))
        return target

    def _where(self, name: str) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}{name}"


def find(pattern: str) -> list[str]:
    """``s3://`` addresses that a path means: the object itself, all objects below it, or those that match its ``*``.

    As in a shell, ``*`` does not pass a slash and ``**`` does; names whose last part begins with a dot are left out.
    Raises InputError if there is none.
    """
    bucket, key = _split(pattern)
    fixed = re.split(r"[*?\[]", key, maxsplit=1)[0]
    found = [k for k, size in _keys(bucket, fixed) if size and not k.rsplit("/", 1)[-1].startswith(".")]
    if fixed == key:
        below = key.rstrip("/") + "/" if key else ""
        matches = [k for k in found if k == key or k.startswith(below)]
    else:
        matches = [k for k in found if _shell(key).fullmatch(k)]
    if not matches:
        raise InputError(f"no such object: {pattern}", where=pattern, hint="give objects, prefixes or globs")
    return [f"{SCHEME}{bucket}/{k}" for k in matches]


def _shell(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]+\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(meaning.get(p) or (p if p.startswith("[") and len(p) > 2 else re.escape(p)) for p in parts)
    )


def stream(url: str) -> IO[bytes]:
    """One object as a file that can be read twice: small ones in memory, others in a temporary file."""
    bucket, key = _split(url)
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - closed by the reader
    with _explained(url):
        _client().download_fileobj(bucket, key, spool)
    spool.seek(0)
    return spool


def start(url: str, size: int) -> bytes:
    """The first ``size`` bytes of an object, or all."""
    bucket, key = _split(url)
    with _explained(url):
        found: bytes = _client().get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{size - 1}")["Body"].read()
        return found


def size(path: str) -> int:
    """Bytes of a file or an object, 0 if that cannot be told."""
    if not is_remote(path):
        try:
            return os.stat(path).st_size
        except OSError:
            return 0
    bucket, key = _split(path)
    with _explained(path):
        return int(_client().head_object(Bucket=bucket, Key=key)["ContentLength"])


def _split(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise UsageError(f"{url} names no bucket", hint="s3://BUCKET/PREFIX")
    return bucket, key


def _keys(bucket: str, prefix: str) -> list[tuple[str, int]]:
    found = []
    with _explained(f"{SCHEME}{bucket}/{prefix}"):
        for page in _client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            found += [(str(each["Key"]), int(each["Size"])) for each in page.get("Contents", ())]
    return sorted(found)


@cache
def _client() -> Any:
    try:
        import boto3
    except ImportError:
        raise UsageError("s3:// needs boto3", hint="pip install 'hedgectl[s3]'") from None
    return boto3.client("s3")


def _botocore() -> Any:
    import botocore.exceptions

    return botocore


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextlib.contextmanager
def _explained(where: str) -> Iterator[None]:
    """Turns failures of the store into HedgectlError; the client has retried by then."""
    _client()
    exceptions = _botocore().exceptions
    try:
        yield
    except exceptions.ClientError as error:
        code = _code(error)
        if code in ("NoSuchKey", "NoSuchBucket", "404"):
            raise InputError(
                f"the store has no such {'bucket' if 'Bucket' in code else 'object'}", where=where
            ) from error
        message = error.response.get("Error", {}).get("Message", "") or code
        raise HedgectlError(
            f"the store refuses: {message}", where=where, hint="check the rights of these credentials"
        ) from error
    except (exceptions.BotoCoreError, OSError) as error:
        hint = "credentials, region and AWS_ENDPOINT_URL are taken from the environment, as by any AWS tool"
        raise HedgectlError(f"the store cannot be used: {error}", where=where, hint=hint) from error
