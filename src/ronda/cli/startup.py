"""What `ronda serve` prints once it is up: where it is, what it has, where conversations go, and how to ask a first question."""

from __future__ import annotations

from pathlib import Path

from ronda._version import __version__
from ronda.server.app import Server
from ronda.server.config import ServerConfig
from ronda.server.http.browser_guard import is_loopback


def startup_lines(server: Server, folder: Path | None, host: str, port: int, *, has_keys: bool) -> list[str]:
    """`folder` is where runs and conversations are kept, if they are."""
    config = server.config
    scheme = "http" if config.tls_cert is None else "https"
    lines = []
    if server.agent_files is not None:
        names = ", ".join(server.agent_files.names()) or "none yet"
        lines.append(f"agents in {config.agents}: {names}")
        lines += [f"ronda: {problem}" for problem in server.agent_files.report()]
    lines.append(
        f"ronda {__version__} on {scheme}://{_bracket_host(host)}:{port}  model {config.model}{_tools(server)}"
    )
    lines += _capability_lines(config)
    if server.mcp is not None:
        names = ", ".join([f"{one.name} ({one.transport})" for one in server.mcp.configs if one.enabled])
        lines.append(f"MCP servers: {names or 'none that is enabled'} (GET /v1/mcp shows the status of each)")
    if config.database is not None:
        where = "in memory" if folder is None else f"in {_home_as_tilde(folder)}, which all servers should share"
        lines.append(f"conversations are kept in the database for {config.journal_max_days:g} days, files {where}")
    elif folder is None:
        lines.append("conversations are kept in memory, until the server ends (--data-dir DIR keeps them in a folder)")
    else:
        lines.append(
            f"conversations are kept in {_home_as_tilde(folder)} for {config.journal_max_days:g} days (--data-dir)"
        )
    if not has_keys and not is_loopback(host):
        lines.append("everybody who can reach this machine may use the server: there are no API keys (--insecure)")
    # A server that listens everywhere is also here.
    near = _bracket_host({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))
    # A question that the small default model answers well; of capitals it writes nonsense.
    question = '{"messages": [{"role": "user", "content": "Why is the sky blue?"}]}'
    if not config.no_ui:
        lines.append(f"open {scheme}://{near}:{port}/ui in a browser")
    lines.append("ask it something from another terminal:")
    key = " -H 'Authorization: Bearer KEY'" if has_keys else ""
    lines.append(
        f"  curl {scheme}://{near}:{port}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{question}'"
    )
    return lines


def _capability_lines(config: ServerConfig) -> list[str]:
    """What models may do beside answering, and where that reaches."""
    lines = []
    kinds = [
        ("Python", config.enable_code_execution, "code" in config.offer),
        ("a shell", config.enable_shell, "shell" in config.offer),
    ]
    if any(is_on for _, is_on, _ in kinds):
        offered = " and ".join(name for name, is_on, is_offered in kinds if is_on and is_offered)
        asked = " and ".join(name for name, is_on, is_offered in kinds if is_on and not is_offered)
        always = f"every request is offered {offered}" if offered else ""
        code = ", and ".join(filter(None, (always, f"requests may ask for {asked}" if asked else "")))
        lines.append(f"{code}; code runs in a sandbox ('ronda doctor' says how code is isolated here)")
        if config.sandbox.mode == "off":
            lines[-1] = code
            lines.append(
                "WARNING: CODE IS NOT ISOLATED (--sandbox off). What a model writes can read, change, delete and send all "
                "that this user can."
            )
    if config.enable_search:
        from ronda.tools.search.settings import destination, read_settings  # loaded with the search

        who = "every request is offered a search" if config.search_mode == "always" else "requests may ask for a search"
        host = destination(read_settings(config.search).backend)
        where = f"queries go to {host}" if host is not None else "queries stay on this machine"
        lines.append(f"{who}; {where} ([search] in the settings file chooses what is searched)")
    return lines


def worker_line(server: Server) -> str:
    return f"ronda {__version__} drives background runs of the database  model {server.config.model}{_tools(server)}"


def _tools(server: Server) -> str:
    """Those that every request has; a server without any need not speak of them."""
    names = ", ".join(server.toolbox.names)
    return f"  tools {names}" if names else ""


def _bracket_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _home_as_tilde(folder: Path) -> str:
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)
