"""An installed package that adds a provider, a kind of tools, and tools: the one in `examples/plugin`, really installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.cli.commands import startup
from tests.timeouts import TIMEOUT

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the package is installed."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(PLUGIN)]
    subprocess.run(command, check=True, timeout=TIMEOUT, capture_output=True)
    before = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), before]), "PYTHONDONTWRITEBYTECODE": "1"}


def ran(env: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "ronda", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_its_provider_is_a_model(env: dict[str, str]) -> None:
    assert ran(env, "run", "--model", "parrot:polly", "Hello") == (0, "polly: Hello", "")


def test_its_tools_are_named_on_the_command_line(env: dict[str, str]) -> None:
    said = ran(env, "run", "--model", "parrot:polly", "--tools", "parrot", 'call {"text": "land"}')
    assert said[:2] == (0, "polly: LAND!")


def test_its_kind_of_tools_is_for_prompty_files(env: dict[str, str]) -> None:
    file = str(PLUGIN / "prices.prompty")
    assert ran(env, "run", file, "-i", 'question=call {"name": "tea"}')[:2] == (0, "polly: 3 euros")
    code, out, _ = ran(env, "run", file, "-i", 'question=call {"name": "wine"}')
    assert (code, "there is no 'wine'; there is tea, cake" in out) == (0, True)


def test_a_server_has_all_of_it(env: dict[str, str], tmp_path: Path) -> None:
    settings = tmp_path / "ronda.toml"
    settings.write_text(
        f'model = "parrot:polly"\ntools = "parrot"\nagents = "{PLUGIN}"\ndata_dir = ":memory:"\nport = 0'
    )
    command = [sys.executable, "-m", "ronda", "serve", "--config", str(settings)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            banner = next(line for line in startup(process) if " on http://" in line)
            url = banner.split(" on ")[1].split()[0]
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=TIMEOUT) as client:
                answer = client.responses.create(model="default", input='call {"text": "land"}')
                messages: Any = [{"role": "user", "content": 'call {"name": "cake"}'}]
                chunks = list(client.chat.completions.create(model="prices", messages=messages, stream=True))
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT)

    assert "tools shout" in banner
    assert answer.output_text == "polly: LAND!"
    assert "".join([choice.delta.content or "" for chunk in chunks for choice in chunk.choices]) == "polly: 5 euros"


def test_its_feature_is_there_when_it_is_named(env: dict[str, str], tmp_path: Path) -> None:
    flags = ["--feature", "parrot", "--parrot-words", "3", "--model", "parrot:polly", "--port", "0"]
    command = [sys.executable, "-m", "ronda", "serve", *flags, "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            banner = next(line for line in startup(process) if " on http://" in line)
            url = banner.split(" on ")[1].split()[0]
            streamed = _sent(url, {"say": "good day"})
            plain = _sent(url, {"say": "again", "stream": False})
            refused = _sent(url, {"say": "one two three four"})
            with urllib.request.urlopen(f"{url}/parrot", timeout=TIMEOUT) as answer:
                count = json.loads(answer.read())
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=TIMEOUT) as client:
                tools: Any = [{"type": "image_generation"}]
                drawn = client.responses.create(model="default", input='call {"prompt": "polly"}', tools=tools)
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT)

    assert streamed == (200, "application/x-ndjson", '{"text":"polly: good day"}\n{"end":"stop"}\n')
    assert plain == (200, "application/json", '{"said":"polly: again"}')
    said = '{"error":"\'say\' has more than the 3 words of --parrot-words"}'
    assert refused == (400, "application/json", said)
    assert count == {"requests": 2}
    assert drawn.output_text == "polly: (o> polly"


def test_its_feature_is_not_there_unless_it_is_named(env: dict[str, str]) -> None:
    code, _, err = ran(env, "serve", "--parrot-words", "3")
    assert (code, "there is no flag '--parrot-words'" in err) == (2, True)


def test_its_feature_is_short() -> None:
    """What it shows is that a door needs a reader, a writer and its errors."""
    lines = (PLUGIN / "src" / "ronda_parrot" / "feature.py").read_text().splitlines()
    assert len(lines) < 150


def _sent(url: str, body: dict[str, Any]) -> tuple[int, str, str]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/parrot", data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read().decode()


def test_without_the_package_the_names_are_unknown() -> None:
    env = dict(os.environ)
    code, _, err = ran(env, "run", "--model", "parrot:polly", "Hello")
    assert (code, "no model can be found under 'parrot:polly'" in err) == (2, True)
    code, _, err = ran(env, "run", "--model", "script:a.json", "--tools", "parrot", "Hello")
    assert (code, "no installed package has tools under the name 'parrot'" in err) == (2, True)


BROKEN = {
    "it cannot be imported": ("raise OSError('no feathers')", "cannot be loaded: OSError: no feathers"),
    "it has no such thing": ("x = 1", "cannot be loaded: AttributeError"),
    "it cannot be called": ("open_it = 5", "what is installed for the provider 'broken' cannot be called: 5"),
}


@pytest.mark.parametrize(("code", "problem"), BROKEN.values(), ids=BROKEN.keys())
def test_a_package_that_is_broken_is_named(tmp_path: Path, code: str, problem: str) -> None:
    (tmp_path / "broken_birds.py").write_text(code)
    info = tmp_path / "broken_birds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-birds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ronda.providers]\nbroken = broken_birds:open_it\n")
    before = os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), before])}

    status, _, err = ran(env, "run", "--model", "broken:one", "Hello")

    assert (status, problem in err) == (2, True), err
    assert "Traceback" not in err
