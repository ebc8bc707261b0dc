"""Bytes under their hash in a bucket of S3, or of any service with its interface: for servers on several machines.

Where the service is, and who asks, say the variables that other programs read, too: AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL),
AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; else ~/.aws/credentials, or the role of the machine. The client is
imported with the first bucket.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BufferedReader, BytesIO, RawIOBase
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from ronda._extras import check_extra
from ronda.errors import BadConfig
from ronda.files.blobs import HASH, Digest, NewBlob
from ronda.store import RemoteStoreError, StoreError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from minio import Minio

SCHEME: Final = "s3://"
_INCOMING: Final = "incoming/"
_ABANDONED_AFTER: Final = timedelta(days=1)  # an upload takes less: the process that began an older one is gone
_IN_MEMORY: Final = 1024 * 1024  # bytes that come in; more wait in a temporary file
_AT_A_TIME: Final = 256 * 1024
_AMAZON: Final = "https://s3.amazonaws.com"
_REFUSED: Final = "the server's file store refused this; the server's log says why"  # for clients
_AWAY: Final = "the server's file store is out of reach; try again in a moment"


class S3Blobs:
    """`place` is `s3://BUCKET/PREFIX`."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.bucket, _, prefix = place.removeprefix(SCHEME).partition("/")
        self.prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        if not self.bucket:
            raise BadConfig(f"files cannot be kept in {place!r}: it names no bucket; write s3://BUCKET/PREFIX")
        self.client = _client(place)

    def begin(self) -> NewBlob:
        return _NewObject(self)

    def open(self, digest: str) -> BinaryIO:
        return BufferedReader(_Object(self, self.key(digest)), _AT_A_TIME)

    def drop(self, digest: str) -> None:
        self.remove(self.key(digest))

    def hashes(self) -> list[str]:
        names = [str(one.object_name).rpartition("/")[2] for one in self._list(self.prefix)]
        return [name for name in names if HASH.match(name)]

    def sweep(self) -> None:
        """No lock says who still writes: what is a day old is abandoned."""
        for one in self._list(self.prefix + _INCOMING):
            if datetime.now(UTC) - one.last_modified > _ABANDONED_AFTER:
                self.remove(one.object_name)

    def key(self, digest: str) -> str:
        assert HASH.match(digest), digest
        return f"{self.prefix}{digest[:2]}/{digest}"

    def incoming_key(self) -> str:
        return self.prefix + _INCOMING + secrets.token_hex(16)

    def remove(self, key: str) -> None:
        with self.explained():
            self.client.remove_object(self.bucket, key)

    def _list(self, prefix: str) -> list[Any]:
        with self.explained():
            return list(self.client.list_objects(self.bucket, prefix, recursive=True))

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """FileNotFoundError for an object that is not there; StoreError for all else."""
        from minio.error import MinioException, S3Error
        from urllib3.exceptions import HTTPError

        try:
            yield
        except S3Error as error:
            if error.code == "NoSuchKey":
                raise FileNotFoundError(f"{self.place} does not have it") from error
            if error.code == "InvalidRange":
                raise _BehindTheEnd(self.place, str(error)) from error
            raise RemoteStoreError(self.place, f"{error.code}: {error.message}", _REFUSED) from error
        except (MinioException, HTTPError, OSError) as error:
            raise RemoteStoreError(self.place, str(error), _AWAY) from error


class _BehindTheEnd(StoreError):
    """Bytes were asked for that an object does not have."""


def _client(place: str) -> Minio:
    check_extra("s3", f"keeping files in {place}")
    from minio import Minio
    from minio.credentials.providers import AWSConfigProvider, ChainedProvider, EnvAWSProvider, IamAwsProvider

    url = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or _AMAZON)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise BadConfig(f"AWS_ENDPOINT_URL_S3 is {url.geturl()!r}; it must be an address like https://minio.example")
    return Minio(
        endpoint=url.netloc,
        credentials=ChainedProvider([EnvAWSProvider(), AWSConfigProvider(), IamAwsProvider()]),
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        secure=url.scheme == "https",
    )


class _NewObject:
    """It is sent under a name of its own, and copied to its hash within the service: what waits meanwhile, a row of a database,
    waits for one short request."""

    def __init__(self, blobs: S3Blobs) -> None:
        self._blobs = blobs
        self._digest = Digest()
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  (it lives as long as this object)
        self._key = ""
        self._hash = ""

    @property
    def size(self) -> int:
        return self._digest.size

    def write(self, data: bytes) -> None:
        self._digest.add(data)
        self._file.write(data)

    def finish(self) -> tuple[str, bool]:
        self._hash, is_text = self._digest.finish()
        self._file.seek(0)
        key, blobs = self._blobs.incoming_key(), self._blobs
        with blobs.explained():
            blobs.client.put_object(blobs.bucket, key, cast("BinaryIO", self._file), self.size)
        self._key = key
        return self._hash, is_text

    def place(self) -> None:
        from minio.commonconfig import CopySource

        assert self._key, "it is not finished"
        blobs = self._blobs
        with blobs.explained():
            blobs.client.copy_object(blobs.bucket, blobs.key(self._hash), CopySource(blobs.bucket, self._key))

    def discard(self) -> None:
        self._file.close()
        if self._key:
            key, self._key = self._key, ""
            self._blobs.remove(key)


class _Object(RawIOBase):
    """An object that is read from one answer of the service, as far as it is read; a seek asks anew."""

    _answer: Any = None  # of one that could not be asked for

    def __init__(self, blobs: S3Blobs, key: str) -> None:
        self._blobs = blobs
        self._key = key
        self._at = 0
        self._answer = self._ask()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        assert whence == 0, "only from the beginning"
        if offset != self._at:
            self._answer.close()
            self._at = offset
            self._answer = self._ask()
        return offset

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        with self._blobs.explained():
            data = self._answer.read(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed and self._answer is not None:
            self._answer.close()
        super().close()

    def _ask(self) -> Any:
        blobs = self._blobs
        try:
            with blobs.explained():
                return blobs.client.get_object(blobs.bucket, self._key, offset=self._at)
        except _BehindTheEnd:
            return BytesIO()
