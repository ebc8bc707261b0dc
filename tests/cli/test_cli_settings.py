"""Where `ronda serve` has its settings from: flags, a file, and what it sets itself."""

from __future__ import annotations

import argparse
from pathlib import Path

import anthropic
import openai
import pytest
from tests.cli.commands import shown
from tests.cli.serving import USER, Started, turn

from ronda.cli.main import parse
from ronda.cli.serve import http_settings
from ronda.cli.settings import read_config
from ronda.errors import BadConfig
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.features.agents.settings import AgentSettings
from ronda.server.features.app_stream.settings import AppSettings
from ronda.server.features.code.settings import CodeSettings
from ronda.server.features.web.settings import WebSettings
from ronda.testing import ScriptedModel


def test_settings_come_from_a_file_with_paths_meant_from_there(start: Started, tmp_path: Path) -> None:
    (tmp_path / "ronda.toml").write_text(
        f'model = "script:{start.script}"\ntools = ["the_tools.py"]\nport = 0\nmax-tool-rounds = 1\ndata-dir = ":memory:"\n'
    )
    with start.serving("--config", str(tmp_path / "ronda.toml")) as served:
        first = turn(served, False, [USER])

    assert first[2] == "tool_calls"


def test_a_folder_to_search_is_meant_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(
        'enable-search = true\nfetch-allow = "10.1.0.0/16"\n[search]\nfolder = "handbook"\nindex = "index.sqlite"\n'
    )

    config = read_config(argparse.Namespace(config=str(file)))

    assert config.part(WebSettings).search == {
        "folder": str(tmp_path / "handbook"),
        "index": str(tmp_path / "index.sqlite"),
    }
    assert config.fetch_allow == ("10.1.0.0/16",)


def test_a_list_of_agents_are_tools_of_the_served_model(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text('agents = ["triage"]\n[agent_tools]\ntriage = ["billing"]\n')

    config = read_config(parse(["serve", "--config", str(file), "--agents", str(tmp_path)])).part(AgentSettings)

    assert config == AgentSettings(str(tmp_path), {"default": ("triage",), "triage": ("billing",)})
    without = read_config(parse(["serve", "--config", str(file)]))  # they may be agents that clients make
    assert without.part(AgentSettings) == AgentSettings(None, config.agent_tools)


def test_an_agent_has_all_that_there_is() -> None:
    config = read_config(parse(["serve", "--agent"]))

    assert config.part(WebSettings) == WebSettings(enable_search=True)
    assert config.part(CodeSettings) == CodeSettings(enable_code_execution=True, enable_shell=True)


def test_flags_win_over_the_file(start: Started, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('["from the flag"]')
    (tmp_path / "ronda.toml").write_text(f'model = "script:{start.script}"\nport = 1\n')

    with start.serving("--config", str(tmp_path / "ronda.toml"), "--model", f"script:{other}") as served:
        assert turn(served, False, [USER]) == ("from the flag", [], "stop")


BAD_SETTINGS: dict[str, tuple[str, str]] = {
    "an unknown key": ("max_tool_round = 5", "max_tool_round"),
    "a wrong type": ('port = "many"', "port"),
    "no TOML": ("port = = 5", "ronda.toml"),
    "a bad choice": ('tool_calls = "some"', "tool_calls"),
    "negative rounds": ("max_tool_rounds = -5", "max-tool-rounds"),
    "no calls at all": ("max_identical_calls = 0", "max-identical-calls"),
    "an unknown key in a table": ("[retry]\ntrys = 5", "trys"),
}


@pytest.mark.parametrize(("text", "named"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_a_bad_setting_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, named: str) -> None:
    (tmp_path / "ronda.toml").write_text(text)

    # It would not start without the bad setting either: else one that is not refused would serve for ever.
    code, _, err = shown(capsys, "serve", "--config", str(tmp_path / "ronda.toml"), "--host", "no.such.host.invalid")

    assert code == 2, err
    assert named in err
    assert "no.such.host" not in err


def test_a_file_of_settings_may_say_how_much_room_a_local_model_has(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text("slots = 2\ncontext = 4096\n")

    config = read_config(argparse.Namespace(config=str(file), context=1024))

    assert (config.slots, config.context) == (2, 1024)


def test_a_file_of_settings_may_say_what_the_model_sees_and_which_api_it_speaks(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text('vision = false\napi-version = "2023-06-01"\n')

    config = read_config(argparse.Namespace(config=str(file)))

    assert (config.vision, config.api_version) == (False, "2023-06-01")


def test_idle_connections_are_kept_longer_than_the_official_clients_keep_them() -> None:
    """A client that sends into a connection which the server just closed gets an error, and not an answer."""
    server = Server(ServerConfig(model="script:test"), MemoryJournal(), provider=ScriptedModel())
    clients = [sdk.DEFAULT_CONNECTION_LIMITS.keepalive_expiry for sdk in (openai, anthropic)]

    assert http_settings(create_app(server), server.config, server.body_memory).timeout_keep_alive > 2 * max(clients)


def test_the_models_that_write_pages_come_from_a_table_or_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(
        'model = "openai-chat:own"\nbase_url = "http://127.0.0.1:9/v1"\n[app]\nvariants = 3\n'
        'models = ["openai:a", { model = "gemini:b", base_url = "http://127.0.0.1:9" }]\n'
    )

    from_file = read_config(parse(["serve", "--config", str(file)]))
    from_flags = read_config(
        parse(["serve", "--config", str(file), "--app-model", "openai:c", "--app-model", "openai:d"])
    )

    assert [model.model for model in from_file.part(AppSettings).app.named] == ["openai:a", "gemini:b"]
    assert from_file.part(AppSettings).app.named[1].base_url == "http://127.0.0.1:9"
    assert [model.model for model in from_flags.part(AppSettings).app.named] == ["openai:c", "openai:d"]
    assert from_flags.part(AppSettings).app.variants == 3


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ('models = ["nothing"]', "nothing"),
        ("variants = 9", "variants"),
        ("variants = 0", "variants"),
        ('colour = "red"', "colour"),
        ("models = 7", "models"),
    ],
)
def test_a_table_of_pages_that_cannot_be_is_refused(tmp_path: Path, table: str, names: str) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(f'model = "openai-chat:own"\nbase_url = "http://127.0.0.1:9/v1"\n[app]\n{table}\n')

    with pytest.raises(BadConfig, match=names):
        read_config(parse(["serve", "--config", str(file)]))
