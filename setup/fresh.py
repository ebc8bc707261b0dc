"""`make fresh`: a minimal Debian, a clone of this repository in it, and the README's two commands, as a newcomer gives them.

On a machine: a user who may install nothing, is told what is missing, and goes on once root has run what was told; and root,
from nothing. In a container, or what most containers are like: no user namespaces, and a first process that takes no note of
those that end; the user has no bubblewrap, root has one that may not isolate anything.

The roots are plain folders. Whatever runs in one has mounts and processes of its own (`unshare`), which go away with it: there
is nothing to clean up, however this ends. The network is this machine's, and so are its mirror of Debian, its certificates and
its settings of pip and npm. `--suite sid` has the newest Python (3.14).

It needs root, and Python's standard library alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
INCLUDED = "python3,make,git,curl,ca-certificates"
USER = "newcomer"
SERVE_SECONDS, TEST_SECONDS = 1200, 3600  # when something hangs, not what anything should take
SANDBOX_USERS = Path("/run/ronda-sandbox")  # as sandbox/user.py has it
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# By their names in `--only`: who it is, and whether in a container.
NEWCOMERS = {
    "user": (USER, False),
    "root": ("root", False),
    "container": (USER, True),
    "container-root": ("root", True),
}
USUAL = ("user", "root", "container")
# The first process of a container: it starts one program, and waits for no other that it inherits.
FIRST_PROCESS = ("python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")


class Failed(Exception):
    """A step that did not go as it should."""


def main() -> int:
    asked = _arguments()
    if os.geteuid() != 0:
        print(
            "make fresh needs root: it makes a root file system and enters it; try 'sudo make fresh'", file=sys.stderr
        )
        return 2
    began = time.monotonic()
    try:
        _try_all(asked)
    except Failed as failure:
        print(f"FAILED: {failure}")
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"all of it worked, in {time.monotonic() - began:.0f} s")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fresh", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--suite", default="bookworm", help="which Debian: bookworm (12), trixie (13), sid")
    parser.add_argument("--quick", action="store_true", help="'make serve' only, without the tests")
    parser.add_argument("--no-slow", action="store_true", help="'make test', without 'make test-slow'")
    parser.add_argument("--tests", default="", help="of the tests these files alone, such as 'tests/sandbox tests/cli'")
    parser.add_argument(
        "--only",
        choices=NEWCOMERS,
        action="append",
        help=f"one of the newcomers alone; may be repeated (default: {', '.join(USUAL)})",
    )
    parser.add_argument("--folder", default=str(REPOSITORY / "build" / "fresh"), help="where the roots are made")
    return parser.parse_args()


def _try_all(asked: argparse.Namespace) -> None:
    folder = Path(asked.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if changed := _git("status", "--porcelain").splitlines():
        print(f"note: {len(changed)} changed files that are not committed are left out")
    with _step(f"a minimal Debian ({asked.suite}) with {INCLUDED.replace(',', ', ')}"):
        base = _base(asked.suite, folder)
    for name in asked.only or USUAL:
        user, is_container = NEWCOMERS[name]
        root = Root(base, folder / f"{asked.suite}-{name}", folder, is_container=is_container)
        print(f"{name}: Python {root.python_version()}")
        targets = () if asked.quick else ("test",) if asked.no_slow else ("test", "test-slow")
        (_try_as_root if user == "root" else _try_as_user)(root, targets, asked.tests)


def _try_as_user(root: Root, targets: Sequence[str], tests: str) -> None:
    root.add_user(USER)
    root.clone(USER)
    with _step("an ordinary user without rights is told what to install"):
        command = _allowed_in(root, _told_what_to_install(root))
    print(f"    {command}")
    with _step("root runs that command"):
        root.run(command, "root", "install", SERVE_SECONDS)
    _try_serve(root, USER)
    if targets:
        with _step("the same for what 'make test-all' would like to have, and root runs that"):
            command = _allowed_in(root, _told_what_would_help(root))
            root.run(command, "root", "install-page", SERVE_SECONDS)
        print(f"    {command}")
    for target in targets:
        _try_test(root, USER, target, tests)
    root.remove()


def _allowed_in(root: Root, command: str) -> str:
    """In a container root leaves bubblewrap out: it would isolate nothing there."""
    return command.replace(" bubblewrap", "") if root.is_container else command


def _try_as_root(root: Root, targets: Sequence[str], tests: str) -> None:
    root.clone("root")
    _try_serve(root, "root")
    for target in targets:
        _try_test(root, "root", target, tests)
    root.remove()


def _try_serve(root: Root, user: str) -> None:
    with _step(f"{user}: make serve, a question with curl, the page, Ctrl-C"):
        answer = root.run(f"python3 - {_free_port()}", user, "serve", SERVE_SECONDS, program="fresh_serve.py")
    print(f"    {answer.splitlines()[-1]}")


def _try_test(root: Root, user: str, target: str, tests: str) -> None:
    """One target of the Makefile, unless `tests` names files. There is a browser and npm by now: pages are built, and looked
    at."""
    command = shlex.join(["make", target, *([f"ARGS={tests}"] if tests else [])])
    with _step(f"{user}: {command}"):
        said = root.run(command, user, target, TEST_SECONDS)
    print(f"    {said.splitlines()[-1]}")
    skipped = [line for line in said.splitlines() if line.startswith("SKIPPED") and "tests/tools/page" in line]
    if skipped and target == "test-slow":
        raise Failed("tests of pages were skipped:\n" + "\n".join(skipped))


def _told_what_to_install(root: Root) -> str:
    """The command that `make serve` prints for a user who may not install anything.

    An attempt by hand leaves half an environment behind, which is not to be in the way later.
    """
    said = root.run("python3 -m venv .venv >/dev/null 2>&1; make serve", USER, "told", SERVE_SECONDS, fails=True)
    return _command_in([line for line in said.splitlines() if not line.startswith("make: ***")])


def _told_what_would_help(root: Root) -> str:
    """The same for what `make test-all` goes on without."""
    said = root.run("make page-system", USER, "told-page", SERVE_SECONDS).splitlines()
    if said[-1:] != ["ronda: going on without"]:
        raise Failed("it should have gone on without, and said:\n" + "\n".join(said))
    return _command_in(said[:-1])


def _command_in(told: list[str]) -> str:
    command = re.search(r": (apt-get update && apt-get install -y( [\w.+-]+)+)$", told[-1]) if told else None
    if len(told) != 1 or command is None:
        raise Failed("it should have said in one line what to install, and said:\n" + "\n".join(told))
    return command[1]


# ---- a root ----------------------------------------------------------------------------------------------------------


class Root:
    """A Debian in a folder; what is run in it is written to a log beside it."""

    def __init__(self, base: Path, path: Path, logs: Path, *, is_container: bool) -> None:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        _run("tar", "-xf", str(base), "-C", str(path))
        self._path = path
        self._logs = logs
        self.is_container = is_container
        self._environ, self._mounts = _pip_settings()
        self._environ |= _npm_settings()
        for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
            if Path(file).exists():
                shutil.copy(file, path / file[1:])

        (path / "etc/apt/apt.conf.d/99-this-machine").write_text(_apt_settings())

    def python_version(self) -> str:
        return _run("chroot", str(self._path), "python3", "--version").removeprefix("Python ").strip()

    def add_user(self, name: str) -> None:
        _run("chroot", str(self._path), "useradd", "--create-home", name)

    def remove(self) -> None:
        """What worked need not be looked at."""
        shutil.rmtree(self._path)

    def clone(self, user: str) -> None:
        """What is committed here, as `git clone` gives it."""
        target = self._path / self._home(user)[1:] / "ronda"
        _git("clone", "--quiet", "--no-local", str(REPOSITORY), str(target))
        _run("chroot", str(self._path), "chown", "-R", f"{user}:", f"{self._home(user)}/ronda")

    def run(
        self, command: str, user: str, name: str, seconds: float, *, program: str | None = None, fails: bool = False
    ) -> str:
        """What a command in the clone says. `program` is a file beside this one, on its standard input."""
        log = self._logs / f"{self._path.name}-{name}.log"
        with (
            open(Path(__file__).parent / program if program else os.devnull) as stdin,
            open(log, "w+", encoding="utf-8", errors="replace") as output,
        ):
            process = subprocess.Popen(self._enter(command, user), stdin=stdin, stdout=output, stderr=subprocess.STDOUT)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise Failed(f"'{command}' did not end within {seconds} s; {log} has what it said") from None
            finally:
                process.kill()  # and with it everything in there
                process.wait()
            output.seek(0)
            said = output.read()
        if (code != 0) != fails:
            end = "\n".join(said.splitlines()[-25:])
            raise Failed(f"'{command}' ended with {code}; {log} has all of it, and this is its end:\n{end}")
        return said

    def _enter(self, command: str, user: str) -> list[str]:
        """Mounts and processes apart from ours; every process ends with the first."""
        home = self._home(user)
        environ = {"HOME": home, "USER": user, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb", **self._environ}
        words = [f"{name}={value}" for name, value in environ.items()]
        inside = f"cd {home}/ronda 2>/dev/null || cd /; {command}"
        first = FIRST_PROCESS if self.is_container else ()
        enter = ["chroot", f"--userspec={user}:{user}", ".", "env", "-i", *words, *first, "sh", "-c", inside]
        mounts = [("/proc", ["-t", "proc", "proc"]), ("/dev", ["--rbind", "/dev"])]
        mounts += [(mount, ["--bind", "-o", "ro", mount]) for mount in self._mounts]
        if user == "root":  # each of its sandboxes has a uid, which no user outside may have at the same time
            SANDBOX_USERS.mkdir(mode=0o700, exist_ok=True)
            mounts.append((str(SANDBOX_USERS), ["--bind", str(SANDBOX_USERS)]))
        root = shlex.quote(str(self._path))
        lines = ["set -e", f"mount --bind {root} {root}"]
        for point, options in mounts:
            target = str(self._path / point[1:])
            lines += [shlex.join(["mkdir", "-p", target]), shlex.join(["mount", *options, target])]
        lines.append(f"cd {root}")
        if not self.is_container:  # who is in a chroot alone may make no user namespaces, which bubblewrap needs
            lines += ["pivot_root . mnt", "cd /", "umount -l /mnt"]
        lines.append("exec " + shlex.join(enter))
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*apart, "sh", "-c", "\n".join(lines)]

    @staticmethod
    def _home(user: str) -> str:
        return "/root" if user == "root" else f"/home/{user}"


def _base(suite: str, folder: Path) -> Path:
    """An archive of the bare system, made once; remove it to have a newer one."""
    archive = folder / f"{suite}.tar"
    if archive.exists():
        return archive
    if shutil.which("debootstrap") is None:
        print("note: installing debootstrap with apt-get", flush=True)
        _run("apt-get", "install", "-y", "debootstrap")
    target = folder / f"{suite}-base"
    shutil.rmtree(target, ignore_errors=True)
    _run("debootstrap", "--variant=minbase", f"--include={INCLUDED}", suite, str(target), *_mirror())
    _run("tar", "-cf", f"{archive}.part", "-C", str(target), ".")
    os.rename(f"{archive}.part", archive)
    shutil.rmtree(target)
    return archive


def _mirror() -> list[str]:
    """This machine's mirror of Debian, if it has one; debootstrap knows another."""
    said = _ask("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages")
    return re.findall(r"^Debian (\S+)$", said, re.MULTILINE)[:1]


def _apt_settings() -> str:
    """How this machine fetches packages: proxies, and a mirror that stands still."""
    settings = re.findall(
        r"^Acquire::(?:https?::|Check-Valid-Until|Retries).*\n", _ask("apt-config", "dump"), re.MULTILINE
    )
    return "".join(settings)


def _pip_settings() -> tuple[dict[str, str], list[str]]:
    """This machine's settings of pip as variables, and the folders that they name."""
    said = _ask(sys.executable, "-m", "pip", "config", "list")
    found = re.findall(r"^[^.\s]+\.+([\w-]+)='(.*)'$", said, re.MULTILINE)
    environ = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in found}
    environ |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    paths = [Path(word.removeprefix("file://")) for _, value in found for word in value.split()]
    return environ, sorted({str(path.parent if path.name == "simple" else path) for path in paths if path.is_dir()})


def _npm_settings() -> dict[str, str]:
    """Where this machine's npm fetches packages."""
    registry = _ask("npm", "config", "get", "registry").strip()
    return {"npm_config_registry": registry} if registry else {}


# ---- what is said, and what is run -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _step(title: str) -> Iterator[None]:
    print(f"{title} …", end="", flush=True)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        print(" no")
        raise
    print(f" {time.monotonic() - began:.0f} s", flush=True)


def _run(*command: str) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"'{shlex.join(command)}' ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def _ask(*command: str) -> str:
    """What a command says about this machine; nothing where there is no such command."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout


def _git(*arguments: str) -> str:
    return _run("git", "-c", "safe.directory=*", "-C", str(REPOSITORY), *arguments)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
