"""A service with S3's interface, and a bucket of a test's own in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import s3

from ronda.files.s3_blobs import S3Blobs


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    if not s3.is_there():
        pytest.skip(s3.MISSING)
    with s3.serving() as url:
        yield url


@pytest.fixture
def bucket(s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Blobs]:
    """A bucket of a test's own."""
    for name, value in s3.environment(s3_url).items():
        monkeypatch.setenv(name, value)
    name = "b" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    blobs = S3Blobs(f"s3://{name}/files/of/ronda")
    blobs.client.make_bucket(name)
    yield blobs
    blobs.client._http.clear()
