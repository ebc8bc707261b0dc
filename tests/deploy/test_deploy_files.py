"""What stands in `deploy/`: tools that know the formats take it, and Ronda understands the commands and settings in it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from setup import container
from tests.cli.serving import Started
from tests.timeouts import TIMEOUT

from ronda.cli.main import parse
from ronda.cli.settings import read_config

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = ["1.30", "1.32", "1.34"]  # a spread of versions that clusters run


def _seconds(text: str | int) -> int:
    return int(str(text).removesuffix("s"))


def _shutdown(command: list[str]) -> int:
    """How long the server that is started so takes to end."""
    flags = parse(command)
    assert flags.command == "serve"
    assert flags.data_dir == "/var/lib/ronda"
    return int(flags.shutdown_seconds or 3)


def _config(text: str, folder: Path) -> Any:
    file = folder / "ronda.toml"
    file.write_text(text)
    return read_config(argparse.Namespace(config=str(file)))


# ---- Kubernetes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def manifests() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes/ronda.yaml").read_text())}


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_the_manifests(version: str, manifests: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_pod_is_asked_whether_it_lives_and_is_ready_and_has_time_to_end(
    manifests: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = [container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    config = _config(manifests["ConfigMap"]["data"]["ronda.toml"], tmp_path)
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])

    assert probes == ["/health", "/health", "/ready"]
    assert parse(container["args"]).config == "/etc/ronda/ronda.toml"
    assert container["ports"][0]["containerPort"] == config.port
    assert pod["terminationGracePeriodSeconds"] > config.shutdown_seconds + pause
    assert pod["securityContext"]["runAsUser"] != 0


# ---- compose ------------------------------------------------------------------------------------------------------------


def test_compose_starts_two_servers_on_one_database() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    server = services["ronda"]

    assert server["deploy"] == {"replicas": 2}
    assert server["environment"]["RONDA_DATABASE"].endswith("@database/ronda")
    assert server["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert _seconds(server["stop_grace_period"]) > _shutdown(server["command"])
    assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).is_file()
    named = re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text())
    assert {*named} <= {line.partition("=")[0] for line in (DEPLOY / "example.env").read_text().splitlines()}
    mounted = services["proxy"]["volumes"][0].partition(":")[0]
    assert (DEPLOY / mounted).is_file()


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.compose-spec", "deploy/compose.yaml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/idea.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_the_file_fits_the_published_schema(schema: str, files: str) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout


def _has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_compose(), reason="there is no 'docker compose' here")
def test_docker_compose_takes_the_file() -> None:
    command = ["docker", "compose", "--env-file", "example.env", "-f", "compose.yaml", "config", "--format", "json"]
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) == {"database", "ronda", "proxy"}


# ---- systemd ------------------------------------------------------------------------------------------------------------


def _exec_start(unit: str) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    return shlex.split(line)


def test_the_unit_starts_the_server_with_the_settings_that_are_there(tmp_path: Path) -> None:
    unit = (DEPLOY / "ronda.service").read_text()
    command = _exec_start(unit)
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    config = _config((DEPLOY / "ronda.toml").read_text(), tmp_path)

    assert command[0] == "/opt/ronda/bin/ronda"
    assert parse(command[1:]).config == "/etc/ronda/ronda.toml"
    assert int(stop) > config.shutdown_seconds


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "ronda.service"
    # The program is looked for, and Ronda is not installed in /opt here.
    unit.write_text((DEPLOY / "ronda.service").read_text().replace("/opt/ronda/bin/ronda", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, timeout=TIMEOUT, env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "ronda" in line]
    assert (done.returncode, said) == (0, [])


# ---- the container ------------------------------------------------------------------------------------------------------


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for line in lines for word, _, rest in [line.partition(" ")]]


def test_the_image_is_made_of_files_that_are_there() -> None:
    sources = [rest.split()[:-1] for word, rest in _instructions() if word == "COPY" and "--from" not in rest]

    assert [name for names in sources for name in names if not (ROOT / name).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert [name for names in sources for name in names if name in ignored] == []


def test_the_image_starts_the_server_as_an_ordinary_user() -> None:
    last = dict(_instructions())  # of each instruction the last one, which holds for the image
    names = [word for word, _ in _instructions()]

    assert json.loads(last["ENTRYPOINT"]) == ["ronda"]
    assert _shutdown(json.loads(last["CMD"])) > 0
    assert last["USER"].split(":")[0].isdigit()
    assert int(last["USER"].split(":")[0]) > 0
    assert names.index("USER") > len(names) - names[::-1].index("RUN") - 1  # nothing is installed after it


def test_every_step_of_the_image_is_tried_by_make_container() -> None:
    found = container.commands(container.instructions(container.CONTAINERFILE.read_text()), "/context")
    built = [step for step in _instructions() if step[0] in ("RUN", "COPY", "WORKDIR") and "--from" not in step[1]]
    page = [step for step in built if "npm" in step[1] or "web" in step[1]]
    assert len(found) == len(built) - len(page)


# ---- a server that is started so ----------------------------------------------------------------------------------------


def test_a_server_with_these_settings_is_alive_ready_and_ends_when_told_to(start: Started, tmp_path: Path) -> None:
    config = tmp_path / "ronda.toml"
    config.write_text((DEPLOY / "ronda.toml").read_text().replace("local:smollm2", f"script:{start.script}"))
    with start.serving("--config", str(config), "--data-dir", str(tmp_path / "data")) as server:
        answers = [
            server.client.with_options(base_url=server.url).get(path, cast_to=str) for path in ("/health", "/ready")
        ]
        code, _ = server.end()

    assert answers[0] == "OK"
    assert json.loads(answers[1])["status"] == "ready"
    assert code == 0
