"""A run driven by itself, without a host: for tests of the loop."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from ronda.core.run import Run
from ronda.drive import Barrier, Driver, Emit, Provider, Tool


def drive(
    run: Run,
    *,
    provider: Provider,
    tools: Mapping[str, Tool],
    emit: Emit,
    barrier: Barrier | None = None,
    **options: Any,
) -> Coroutine[Any, Any, None]:
    """`options` are set on the driver."""
    driver = Driver(run, provider, tools, emit, barrier)
    for name, value in options.items():
        setattr(driver, name, value)
    return driver.drive()
