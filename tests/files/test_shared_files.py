"""Files of servers on two machines, which share a database and a bucket and no folder."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from tests.server.restarts import Folder
from tests.server.services.test_replicas import Replica
from tests.timeouts import TIMEOUT

from ronda.files.s3_blobs import S3Blobs


def upload(server: Replica, data: bytes) -> str:
    body = (
        b'--cut\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--cut\r\nContent-Disposition: form-data; '
        b'name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n' + data + b"\r\n--cut--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=cut"}
    request = urllib.request.Request(f"{server.serving.url}/files", body, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return str(json.load(answer)["id"])


def test_a_file_that_one_server_took_another_gives_and_deletes(tmp_path: Path, postgres: str, bucket: S3Blobs) -> None:
    with ExitStack() as servers:
        one, other = (
            Replica(
                servers.enter_context(
                    Folder(tmp_path / name, "Hi.").serving("--database", postgres, "--file-store", bucket.place)
                )
            )
            for name in ("one", "other")
        )
        file_id = upload(one, b"what is in it")
        content = other.stream(f"/files/{file_id}/content")
        deleted = other.ask("DELETE", f"/files/{file_id}")
        gone, _ = one.ask("GET", f"/files/{file_id}")
        left = bucket.hashes()

    assert content == b"what is in it"
    assert (deleted[0], gone, left) == (200, 404, [])
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"what is in it" in path.read_bytes()]
