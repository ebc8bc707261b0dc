"""What the tests use in the place of S3."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from tests import s3
from tests.timeouts import TIMEOUT


@pytest.mark.skipif(not s3.is_there(), reason=s3.MISSING)
def test_it_answers_however_much_it_has_written_to_its_log() -> None:
    with s3.serving() as url:
        statuses = [_status(f"{url}/bucket/{'x' * 900}{number}") for number in range(100)]

    assert statuses == [404] * 100


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
