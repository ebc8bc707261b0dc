"""setup/system-packages: on a machine that lacks something, installs it where it may, and else says in one line what to run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.timeouts import TIMEOUT

SCRIPT = Path(__file__).parents[1] / "setup" / "system-packages"
BOTH = "python3-venv libgomp1"
INSTALL = "apt-get install -y --no-install-recommends"

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")


class Machine:
    """The commands that the script looks for, in a folder that is all of its PATH; what is installed is written down."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._installed = folder / "installed"
        self._release = folder / "os-release"
        self.has_all_but("ensurepip", "CDLL")
        self.command("uname", "echo Linux")
        self.command("id", "echo 1000")
        self.command("bwrap", "exit 0")

    def command(self, name: str, does: str) -> None:
        file = self._bin / name
        file.write_text(f"#!/bin/sh\n{does}\n")
        file.chmod(0o755)

    def has_all_but(self, *imports: str) -> None:
        """A Python whose program fails where it has one of these words in it."""
        cases = "".join(f"*{word}*) exit 1;; " for word in imports)
        for name in ("python3", "python3.13"):
            self.command(name, f'case "$2" in {cases} esac')

    def lacks(self, command: str) -> None:
        (self._bin / command).unlink()

    def has_apt(self, code: int = 0) -> None:
        self.command("apt-get", f'echo "apt-get $*" >> {self._installed}; exit {code}')

    def is_root(self) -> None:
        self.command("id", "echo 0")

    def has_sudo(self, asks_for_a_password: bool) -> None:
        refuse = '[ "$1" != -n ] || exit 1; ' if asks_for_a_password else '[ "$1" != -n ] || shift; '
        self.command("sudo", f'{refuse}echo "as root" >> {self._installed}; "$@"')
        self.command("true", "exit 0")

    def is_ubuntu(self) -> None:
        self._release.write_text("ID=ubuntu\nID_LIKE=debian\n")

    def set_up(self, *arguments: str) -> tuple[int, str, list[str]]:
        """How the script ends, what it says, and what was done with apt-get."""
        done = subprocess.run(
            [shutil.which("sh") or "sh", str(SCRIPT), *(arguments or ["python3"])],
            env={"PATH": str(self._bin), "OS_RELEASE": str(self._release)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        installed = self._installed.read_text().splitlines() if self._installed.exists() else []
        return done.returncode, done.stdout, installed


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_where_nothing_is_missing_nothing_is_said_or_done(machine: Machine) -> None:
    machine.has_all_but()

    assert machine.set_up() == (0, "", [])


def test_root_installs_what_is_missing_and_says_so_before(machine: Machine) -> None:
    machine.has_apt()
    machine.is_root()

    assert machine.set_up() == (
        0,
        f"ronda: this machine lacks {BOTH}; installing with: {INSTALL} {BOTH}\n",
        ["apt-get update -q", f"{INSTALL} {BOTH}"],
    )


def test_only_what_is_missing_is_installed(machine: Machine) -> None:
    machine.has_all_but("CDLL")
    machine.has_apt()
    machine.is_root()

    assert machine.set_up()[2] == ["apt-get update -q", f"{INSTALL} libgomp1"]


def test_another_python_of_debians_has_a_package_of_its_own(machine: Machine) -> None:
    machine.has_apt()
    machine.is_root()

    assert machine.set_up("python3.13")[2][-1] == f"{INSTALL} python3.13-venv libgomp1"


def test_a_user_who_may_uses_sudo(machine: Machine) -> None:
    machine.has_apt()
    machine.has_sudo(asks_for_a_password=False)

    code, said, installed = machine.set_up()

    assert (code, said) == (
        0,
        f"ronda: this machine lacks {BOTH}; installing with: sudo {INSTALL} {BOTH}\n",
    )
    assert installed[-2:] == ["as root", f"{INSTALL} {BOTH}"]


def test_without_sudo_the_command_for_root_is_told(machine: Machine) -> None:
    machine.has_apt()

    assert machine.set_up() == (
        1,
        f"ronda: this machine lacks {BOTH}; run this as root, then make again: apt-get update && {INSTALL} {BOTH}\n",
        [],
    )


def test_where_nobody_could_type_a_password_the_command_is_told(machine: Machine) -> None:
    machine.has_apt()
    machine.has_sudo(asks_for_a_password=True)

    assert machine.set_up() == (
        1,
        f"ronda: this machine lacks {BOTH}; run this, then make again: sudo apt-get update && sudo {INSTALL} {BOTH}\n",
        [],
    )


def test_without_apt_the_packages_are_told(machine: Machine) -> None:
    code, said, _ = machine.set_up()

    assert code == 1
    assert said == (
        f"ronda: this machine lacks {BOTH}; install what your system calls these packages of Debian's, "
        "then run make again\n"
    )


def test_when_apt_fails_the_command_is_told(machine: Machine) -> None:
    machine.has_apt(code=100)
    machine.is_root()

    code, said, _ = machine.set_up()

    assert code == 1
    assert said.splitlines()[-1].endswith(f": apt-get update && {INSTALL} {BOTH}")


def test_elsewhere_than_on_linux_the_engine_brings_its_libraries_and_no_browser_is_isolated(machine: Machine) -> None:
    machine.has_all_but("CDLL")
    machine.command("uname", "echo Darwin")
    machine.command("npm", "exit 0")

    assert machine.set_up("python3", "page") == (0, "", [])


def test_bubblewrap_is_installed_with_the_rest(machine: Machine) -> None:
    machine.has_all_but("CDLL")
    machine.lacks("bwrap")
    machine.has_apt()
    machine.is_root()

    assert machine.set_up()[2][-1] == f"{INSTALL} libgomp1 bubblewrap"


def test_where_only_bubblewrap_is_missing_and_may_not_be_installed_it_goes_on_without(machine: Machine) -> None:
    machine.has_all_but()
    machine.lacks("bwrap")
    machine.has_apt()

    assert machine.set_up() == (
        0,
        "ronda: this machine lacks bubblewrap; run this as root, then make again: "
        f"apt-get update && {INSTALL} bubblewrap\nronda: going on without\n",
        [],
    )


# ---- what pages need -------------------------------------------------------------------------------------------------


def test_pages_need_more_which_those_who_build_none_do_not_get(machine: Machine) -> None:
    machine.has_all_but()
    machine.has_apt()
    machine.is_root()

    assert machine.set_up("python3") == (0, "", [])
    assert machine.set_up("python3", "page")[2] == [
        "apt-get update -q",
        f"{INSTALL} chromium-headless-shell fonts-liberation npm",
    ]


@pytest.mark.parametrize("browser", ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"])
def test_any_chromium_will_do(machine: Machine, browser: str) -> None:
    machine.has_all_but()
    machine.command(browser, "exit 0")
    machine.command("npm", "exit 0")

    assert machine.set_up("python3", "page") == (0, "", [])


def test_who_may_not_install_what_pages_need_is_told_and_goes_on(machine: Machine) -> None:
    machine.has_all_but()
    machine.has_apt()

    assert machine.set_up("python3", "page") == (
        0,
        "ronda: this machine lacks chromium-headless-shell fonts-liberation npm; run this as root, then make again: "
        f"apt-get update && {INSTALL} chromium-headless-shell fonts-liberation npm\nronda: going on without\n",
        [],
    )


def test_ubuntus_chromium_is_not_installed(machine: Machine) -> None:
    """It is a snap, which starts through a daemon outside: nothing isolates it."""
    machine.has_all_but()
    machine.has_apt()
    machine.is_root()
    machine.is_ubuntu()

    code, said, installed = machine.set_up("python3", "page")
    assert (code, installed[-1]) == (0, f"{INSTALL} npm")
    assert "google-chrome-stable" in said.splitlines()[0]


def test_chaos_goes_on_without_network_namespaces(machine: Machine) -> None:
    machine.has_all_but()
    assert machine.set_up("python3", "page")[1].count("iproute2") == 0
    code, text, _ = machine.set_up("python3", "chaos")
    assert (code, "iproute2" in text, "going on without" in text) == (0, True, True)
    machine.command("ip", "exit 0")
    assert machine.set_up("python3", "chaos") == (0, "", [])
