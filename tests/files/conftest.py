"""A service with S3's interface, and a bucket of a test's own in it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ronda.files.s3_blobs import S3Blobs


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Of a service with S3's interface, in a process of its own: its packages do not go with ours."""
    packages = Path(sys.prefix) / "moto"
    if not packages.is_dir():
        pytest.skip("moto, which stands in for S3, is not there: 'make test' installs it")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    env = {**os.environ, "PYTHONPATH": str(packages), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(url for line in process.stderr if (url := re.search(r"http://127\.0\.0\.1:\d+", line)))
            yield found.group()
        finally:
            process.kill()


@pytest.fixture
def bucket(s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Blobs]:
    """A bucket of a test's own."""
    settings = {"ENDPOINT_URL_S3": s3_url, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    name = "b" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    blobs = S3Blobs(f"s3://{name}/files/of/ronda")
    blobs.client.make_bucket(name)
    yield blobs
    blobs.client._http.clear()
