"""Settings of the tools that run code, of permissions and of uploads: from flags, from a file, and what is wrong with them."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from ronda.cli.main import parse
from ronda.cli.settings import read_config
from ronda.core.plan import PermissionRule
from ronda.errors import BadConfig
from ronda.sandbox.policy import AllowedHosts, Loopback, NoNetwork, Policy
from ronda.server.config import ServerConfig
from ronda.server.features.code.code_tools import workspaces_root
from ronda.server.features.code.settings import CodeSettings
from ronda.server.features.skills.settings import SkillSettings
from ronda.tools.code.folders import check_shared_folder


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RONDA_SANDBOX", "MISTRALRS_SANDBOX"):
        monkeypatch.delenv(name, raising=False)


def read(*flags: str) -> ServerConfig:
    return read_config(parse(["serve", *flags]))


def test_nothing_runs_code_unless_it_is_switched_on() -> None:
    config = read()
    assert config.part(CodeSettings) == CodeSettings()
    assert (CodeSettings().enable_code_execution, CodeSettings().enable_shell) == (False, False)
    assert config.sandbox == Policy(mode="auto", profile="restricted", network=NoNetwork())


def test_flags_say_how_code_runs() -> None:
    config = read(
        "--enable-code-execution", "--code-exec-timeout", "5", "--code-exec-python", "/usr/bin/python3",
        "--enable-shell", "--shell-path", "/bin/bash", "--shell-timeout", "7", "--sandbox", "on",
        "--sandbox-profile", "developer", "--sandbox-network", "loopback",
        "--sb-max-memory-mb", "100", "--sb-max-cpu-secs", "10", "--sb-max-procs", "8",
        "--code-exec-workdir", "work", "--code-exec-pool", "2", "--shell-workdir", "sessions", "--skills-dir", "skills",
    )  # fmt: skip
    assert config.part(CodeSettings) == CodeSettings(
        enable_code_execution=True, code_exec_python="/usr/bin/python3", code_exec_workdir="work", code_exec_pool=2,
        code_exec_timeout=5.0, enable_shell=True, shell_path="/bin/bash", shell_workdir="sessions", shell_timeout=7.0,
    )  # fmt: skip
    assert config.part(SkillSettings) == SkillSettings("skills")
    assert config.sandbox == Policy("on", "developer", Loopback(), 100, 10, 8)


def test_a_file_says_the_same_and_flags_count_more(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(
        "enable-shell = true\n[sandbox]\nnetwork = 'allow:pypi.org'\nmax_open_fds = 99\nmax_procs = 9\n"
        "[[permission]]\ntool = 'mistralrs_*'\nmode = 'ask'\n"
    )
    config = read("--config", str(file), "--sb-max-procs", "10")
    assert config.part(CodeSettings).enable_shell
    assert config.sandbox == Policy(network=AllowedHosts(("pypi.org",)), max_open_fds=99, max_procs=10)
    assert config.permission == (PermissionRule("ask", "mistralrs_*"),)


def test_the_environment_counts_while_the_mode_is_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRALRS_SANDBOX", "off")
    assert read().sandbox.mode == "off"
    assert read("--sandbox", "on").sandbox.mode == "on"
    monkeypatch.setenv("RONDA_SANDBOX", "on")
    assert read().sandbox.mode == "on"


@pytest.mark.parametrize("flag", ["--agent-permission", "--code-exec-permission"])
def test_permissions_have_two_names(flag: str) -> None:
    assert read(flag, "ask").agent_permission == "ask"


def test_a_folder_for_all_sessions_must_be_there_and_root_takes_nobodys_files(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="there is no such folder"):
        check_shared_folder(tmp_path / "gone", "folder", takes_over=False)
    check_shared_folder(tmp_path, "folder", takes_over=True)
    (tmp_path / "work.txt").touch()
    check_shared_folder(tmp_path, "folder", takes_over=False)
    with pytest.raises(BadConfig, match="is not empty: if root runs code, the code has a user of its own"):
        check_shared_folder(tmp_path, "folder", takes_over=True)


def test_workspaces_are_where_the_sandboxs_user_gets(tmp_path: Path) -> None:
    """pytest's own folder is closed for others, as a home is."""
    closed, instead = tmp_path / "data", tmp_path / "instead"
    closed.mkdir(mode=0o700)
    assert workspaces_root(closed, is_root=False) == closed / "workspaces"
    assert workspaces_root(closed, is_root=True, instead=instead).parent == instead
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        data = Path(made) / "data"
        data.mkdir(mode=0o700)
        for folder in (data, data / "not there yet"):
            assert workspaces_root(folder, is_root=True, instead=instead) == folder / "workspaces"
            assert stat.S_IMODE(folder.stat().st_mode) == 0o711
        (data / "file").touch()
        with pytest.raises(BadConfig, match="cannot make the data folder"):
            workspaces_root(data / "file" / "data", is_root=True, instead=instead)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sandbox = 1", "sandbox must be a table"),
        ("[sandbox]\nnetwrok = 'none'", "did you mean 'network'"),
        ("[sandbox]\nmax_procs = 1", "max_procs is 1"),
        ("[[permission]]\nmode = 'never'", "permission"),
        ("[[permission]]\nmode = 'ask'\ntol = 'x'", "permission"),
        ("[[permission]]\nmode = 'ask'\narguments = {'/a' = '('}", "is no regular expression"),
        ("max_upload = 0", "--max-upload is 0"),
        ("code_exec_timeout = -1", "code-exec-timeout"),
        ("code_exec_pool = -1", "--code-exec-pool is -1; it can be 0 to 64"),
        ("code_exec_workdir = '.'", "--code-exec-workdir is of no use without --enable-code-execution"),
        ("enable_code_execution = true\nshell_path = '/bin/bash'", "--shell-path is of no use without --enable-shell"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(text)
    with pytest.raises(BadConfig, match=problem):
        read("--config", str(file))
