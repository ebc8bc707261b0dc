"""Where `ronda serve` has the addresses of tools and their secrets from, and what is wrong with some."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ronda.cli.settings import read_config
from ronda.errors import BadConfig
from ronda.server.features.dispatch.settings import DispatchSettings, ToolAddress

URL = "http://127.0.0.1:1/tools"


def config_of(folder: Path, text: str) -> DispatchSettings:
    file = folder / "ronda.toml"
    file.write_text(f'model = "script:a.json"\n{text}')
    return read_config(argparse.Namespace(config=str(file))).part(DispatchSettings)


def test_a_tool_has_an_address_and_a_secret_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_SECRET", "s1")

    config = config_of(
        tmp_path,
        f"""
        [dispatch.get_weather]
        url = "{URL}"
        secret = "${{env:WEATHER_SECRET}}"
        timeout = 5
        repeatable = true
        approval = "ask"
        [dispatch."get-time"]
        url = "{URL}"
        secret = "as it is"
        description = "The time."
        parameters = {{ type = "object" }}
        """,
    )

    assert config.dispatch == {
        "get_weather": ToolAddress(URL, "s1", 5, repeatable=True, approval="ask"),
        "get-time": ToolAddress(URL, "as it is", description="The time.", parameters={"type": "object"}),
    }


def test_the_servers_secret_is_in_the_environment_or_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f'tool_dispatch_url = "{URL}"\n'
    with_secret = address + 'tool_dispatch_secret = "mine"'
    assert config_of(tmp_path, with_secret).tool_dispatch_secret == "mine"

    monkeypatch.setenv("RONDA_TOOL_DISPATCH_SECRET", "from the environment")
    assert config_of(tmp_path, address).tool_dispatch_secret == "from the environment"
    assert config_of(tmp_path, with_secret).tool_dispatch_secret == "from the environment"
    assert config_of(tmp_path, "").tool_dispatch_secret is None


WRONG = {
    "no address": ("[dispatch.a]", "the settings file '{file}': dispatch[...]: Object missing required field url"),
    "another scheme": ('[dispatch.a]\nurl = "ftp://me:pw@x"', "[dispatch.a] url is 'ftp://x': it must begin with http"),
    "an unknown key": (f'[dispatch.a]\nurl = "{URL}"\nurls = 1', "the settings file '{file}': dispatch[...]: "),
    "no time": (f'[dispatch.a]\nurl = "{URL}"\ntimeout = 0', "[dispatch.a] timeout is 0; it must be more than 0"),
    "an empty secret": (f'[dispatch.a]\nurl = "{URL}"\nsecret = ""', "[dispatch.a] url: the secret that signs its"),
    "a name that no model takes": (f'[dispatch."a b"]\nurl = "{URL}"', "[dispatch.a b]: a tool's name has up to 64"),
    "half a tool": (f'[dispatch.a]\nurl = "{URL}"\ndescription = "A."', "[dispatch.a] has a description but no"),
    "no schema": (f'[dispatch.a]\nurl = "{URL}"\nparameters = {{ type = 5 }}', "[dispatch.a] parameters are no JSON"),
    "a variable that is not set": (
        f'[dispatch.a]\nurl = "{URL}"\nsecret = "${{env:NO_SUCH_SECRET}}"',
        "the secret of [dispatch.a] is ${env:NO_SUCH_SECRET}, and the environment has no NO_SUCH_SECRET",
    ),
    "a secret for nobody": ('tool_dispatch_secret = "s"', "tool_dispatch_secret signs the calls that are sent to"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_named_before_anything_starts(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, text)
    assert str(caught.value).startswith(problem.replace("{file}", str(tmp_path / "ronda.toml")))
    assert "pw" not in str(caught.value)
