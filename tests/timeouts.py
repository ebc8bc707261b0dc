"""How long a test waits for something before it says that it hangs. Never what a test measures.

Wait for an event within `soon()`; the bound is generous, because a busy machine is not a bug.
"""

from __future__ import annotations

import asyncio

TIMEOUT = 120.0


def soon() -> asyncio.Timeout:
    """Bounds a wait."""
    return asyncio.timeout(TIMEOUT)
