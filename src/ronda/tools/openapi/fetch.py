"""The address of a document → its text: within bounds, and no further than the host it names.

The author of the file that names the address may reach whatever this machine reaches: an API of the house is a common case.
"""

from __future__ import annotations

from typing import Final

from ronda.tools.fetch.addresses import ANYWHERE
from ronda.tools.fetch.fetcher import Fetcher, FetchFailed
from ronda.tools.openapi.document import BadDocument

MAX_SIZE: Final = 8_000_000
SECONDS: Final = 30.0
_HEADERS: Final = {"Accept": "application/json, application/yaml, */*;q=0.5"}


async def fetch(address: str) -> bytes:
    fetcher = Fetcher(ANYWHERE, seconds=SECONDS, max_bytes=MAX_SIZE)
    try:
        found = await fetcher.fetch(address, headers=_HEADERS, same_origin=True)
    except FetchFailed as error:
        raise BadDocument(str(error)) from error
    if not found.data:
        raise BadDocument(f"{found.url.partition('?')[0]} is empty")
    return found.data
