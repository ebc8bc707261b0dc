"""Keys → the renderers, parsers, executors and processors that files ask for by name.

    renderer    template.format.kind        executor    model.provider
    parser      template.parser.kind        processor   model.provider

Asked in this order: what was registered here, then what other packages offer as entry points under the specification's
group names. A package is only loaded for a key that is not registered. What a component can do is known
to the code that asks for it; here it is an object that was made once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from ronda.prompty.errors import InvokerError

Component: TypeAlias = Literal["renderer", "parser", "executor", "processor"]
Make: TypeAlias = Callable[[], Any]

_GROUPS: Final[dict[Component, str]] = {
    "renderer": "prompty.renderers",
    "parser": "prompty.parsers",
    "executor": "prompty.executors",
    "processor": "prompty.processors",
}

_lock = threading.RLock()
_registered: dict[tuple[Component, str], Make] = {}
_made: dict[tuple[Component, str], Any] = {}


def register(component: Component, key: str, make: Make) -> None:
    """`make` is called once, at the first use. What was registered before under the key is replaced."""
    with _lock:
        _registered[component, key] = make
        _made.pop((component, key), None)


def get_renderer(key: str) -> Any:
    return _get("renderer", key)


def get_parser(key: str) -> Any:
    return _get("parser", key)


def get_executor(key: str) -> Any:
    return _get("executor", key)


def get_processor(key: str) -> Any:
    return _get("processor", key)


def clear_cache() -> None:
    """Forget what was made; what was registered stays."""
    with _lock:
        _made.clear()


def _get(component: Component, key: str) -> Any:
    with _lock:
        if (component, key) not in _made:
            make = _registered.get((component, key)) or _find_entry_point(component, key)
            if make is None:
                raise InvokerError(f"No {component} registered for key: {key}")
            _made[component, key] = make()
        return _made[component, key]


def _find_entry_point(component: Component, key: str) -> Make | None:
    from importlib.metadata import entry_points  # 20 ms, for keys that are not registered

    for point in entry_points(group=_GROUPS[component], name=key):
        try:
            made: Make = point.load()
        except Exception as error:  # another package's own trouble
            raise InvokerError(f"the {component} for key {key} of {point.value} cannot be loaded: {error}") from error
        return made
    return None
