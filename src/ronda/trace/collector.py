"""The variables `OTEL_*` → exporters, by the names under which OpenTelemetry's packages register them; and whether what they
send is taken.

    OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER    `otlp` unless they say; `none`; `console`; several, with commas between them
    OTEL_EXPORTER_OTLP_PROTOCOL                    `http/protobuf` unless it says; `grpc` is a package of its own
    OTEL_SDK_DISABLED=true                         nothing is sent
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from ronda.errors import BadConfig

Signal: TypeAlias = Literal["traces", "metrics"]

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics")
# A protocol → the exporter of it, as its package registers it.
_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_NO_SENDING: Final = "none"
_ASK_SECONDS: Final = 5.0  # that the doctor waits for a collector


def exporters_of(signal: Signal) -> list[Callable[[], Any]]:
    """Raises BadConfig for a name that no installed package knows."""
    return [_load(signal, name) for name in _names_of(signal)]


def problems_with_exporters() -> Iterator[str]:
    for signal in SIGNALS:
        try:
            exporters_of(signal)
        except BadConfig as error:
            yield str(error)


def resource() -> Any:
    """The service is called `ronda`, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES says otherwise."""
    from opentelemetry.sdk.resources import Resource

    from ronda._version import __version__

    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({"service.version": __version__} | ({} if named else {"service.name": "ronda"}))


def ask_collector() -> dict[str, tuple[str, bool | None]]:
    """Of each signal, where it goes (scheme and host), and whether the collector takes it; or why it goes to none, and None. An
    empty request is sent, which collectors have to take. It waits for the collector: not for an event loop."""
    log = logging.getLogger("opentelemetry.exporter")  # which would write of it what the answer says anyway
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return {signal: _ask(signal) for signal in SIGNALS}
    finally:
        log.setLevel(level)


def _ask(signal: Signal) -> tuple[str, bool | None]:
    from opentelemetry.sdk.metrics.export import MetricsData

    if _is_disabled():
        return "OTEL_SDK_DISABLED leaves them out", None
    names = _names_of(signal)
    if not names:
        return f"OTEL_{signal.upper()}_EXPORTER leaves them out", None
    asked = [name for name in names if name in _PROTOCOLS.values()]
    if not asked:
        return f"they go to {', '.join(names)} only", None
    nothing: Any = () if signal == "traces" else MetricsData([])
    exporter: Any = _load(signal, asked[0])
    result = exporter(timeout=_ASK_SECONDS).export(nothing)
    return _place_of(signal.upper()), result.name == "SUCCESS"


def _names_of(signal: Signal) -> list[str]:
    """As packages register them."""
    if _is_disabled():
        return []
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    names = [name.strip().lower() for name in (os.environ.get(variable) or "otlp").split(",")]
    return [_otlp(signal) if name == "otlp" else name for name in names if name not in ("", _NO_SENDING)]


def _is_disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _otlp(signal: Signal) -> str:
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    for variable in variables:
        protocol = os.environ.get(variable, "").strip().lower()
        if protocol and protocol not in _PROTOCOLS:
            raise BadConfig(f"{variable} is {protocol[:100]!r}; it can be {' or '.join(_PROTOCOLS)}")
        if protocol:
            return _PROTOCOLS[protocol]
    return _PROTOCOLS["http/protobuf"]


def _load(signal: Signal, name: str) -> Any:
    for entry in entry_points(group=f"opentelemetry_{signal}_exporter", name=name):
        return entry.load()
    if name == _PROTOCOLS["grpc"]:
        raise BadConfig(
            "OTEL_EXPORTER_OTLP_PROTOCOL=grpc needs a package: pip install opentelemetry-exporter-otlp-proto-grpc"
        )
    raise BadConfig(
        f"OTEL_{signal.upper()}_EXPORTER names {name[:100]!r}, and no package that is installed has such an exporter; "
        "'otlp', 'console' and 'none' are always there"
    )


def _place_of(signal: str) -> str:
    names = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    url = urlsplit(next((os.environ[name] for name in names if os.environ.get(name)), "http://localhost:4318"))
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}" if url.netloc else "what is no URL"
