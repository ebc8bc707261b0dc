"""Settings that were read again → a server that goes by them, without a restart: on SIGHUP.

Runs under way keep what they began with. A change of a setting that is not in RELOADED is reported, and takes effect with a
restart: its value is built into something that holds connections, files or the names of others. What can be wrong is found
before anything is changed, so a reload is whole or has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ronda.agent.compaction import read_summarizer
from ronda.core.guardrails import read_guardrails
from ronda.errors import BadConfig, quote_names
from ronda.server.config import ServerConfig
from ronda.server.features.table import all_values
from ronda.server.services.tools_file import ToolsFile, load_tools

if TYPE_CHECKING:
    from ronda.server.app import App, Server

# What each request or run reads anew. Keys and the files of --agents are not here: servers see their changes without a signal.
RELOADED: Final = (
    "tools",
    "tls_cert",
    "tls_key",
    "allow_hosts",
    "allow_origins",
    "agent_permission",
    "permission",
    "max_tool_rounds",
    "max_tool_rounds_ceiling",
    "max_run_seconds",
    "max_identical_calls",
    "max_answer_bytes",
)


class Reload(msgspec.Struct, frozen=True):
    """What was read, off the event loop: nothing has changed yet."""

    config: ServerConfig
    tools: ToolsFile


def read_again(read: Callable[[], ServerConfig], feature_tools: Collection[str]) -> Reload:
    """May take long, since it runs the operator's files. `feature_tools`: names that they may not have. Raises BadConfig."""
    config = read()
    loaded = load_tools(config.tools)
    taken = {tool.spec.name for tool in loaded.tools} & {*feature_tools}
    if taken:
        raise BadConfig(f"the tools file has {quote_names(sorted(taken))}, and so has this server")
    read_guardrails(loaded.guardrails)
    read_summarizer(loaded.compaction)
    return Reload(config, loaded)


def apply_reload(server: Server, app: App, found: Reload) -> list[str]:
    """Lines for the operator. Raises BadConfig, with nothing changed."""
    old, new = server.config, found.config
    changed = _changed(old, new)
    server.toolbox.replace(found.tools.tools, found.tools.callbacks)
    server.runs.guard(read_guardrails(found.tools.guardrails), read_summarizer(found.tools.compaction))
    server.config = msgspec.structs.replace(old, **{name: getattr(new, name) for name in RELOADED})
    server.opening.setups.forget()
    app.open_guard()
    taken_up = [name for name in changed if name in RELOADED]
    later = [name for name in changed if name not in RELOADED]
    tools = ", ".join(server.toolbox.names) or "none"
    lines = [f"ronda: settings were read again: {', '.join(taken_up) or 'none has changed'}; tools {tools}"]
    if later:
        lines.append(f"ronda: WARNING: a restart is needed for {', '.join(later)}")
    return lines


def _changed(old: ServerConfig, new: ServerConfig) -> Sequence[str]:
    after = all_values(new)
    return [name for name, value in all_values(old).items() if value != after.get(name)]
