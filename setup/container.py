"""`make container`: the steps of deploy/Containerfile without a container: in a chroot, with the limits of most containers.

For machines where no daemon may run. The image of Python is a minimal Debian here, and its Python the system's; each RUN is run,
each COPY copies what is committed, and the command is started as the image's user. The stage that builds the page is left out:
the server works without it. It needs root, as `make fresh` does, whose roots these are.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import NamedTuple

from setup.fresh import REPOSITORY, SERVE_SECONDS, Failed, Root, _base, _step

CONTAINERFILE = REPOSITORY / "deploy/Containerfile"
LEFT_OUT = "page"  # the stage


class Instruction(NamedTuple):
    stage: str
    word: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    found: list[Instruction] = []
    stage = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2] if " AS " in rest else ""
        found.append(Instruction(stage, word, rest.strip()))
    return found


def commands(steps: list[Instruction], context: str) -> list[str]:
    """What is run as root to build the image: one shell command for each RUN, COPY and WORKDIR. All stages are in one root."""
    made: list[str] = []
    folder = "/"
    for step in steps:
        if step.stage == LEFT_OUT:
            continue
        match step.word:
            case "FROM":
                folder = "/"
            case "WORKDIR":
                folder = step.rest
                made.append(f"mkdir -p {folder}")
            case "RUN":
                made.append(f"cd {folder} && {step.rest}")
            case "COPY" if "--from=" in step.rest:
                continue  # it is there already, or was left out
            case "COPY":
                *sources, target = step.rest.split()
                names = " ".join(f"{context}/{name}" for name in sources)
                made.append(f"cd {folder} && cp -a {names} {target}")
            case _:
                continue
    return made


def main() -> int:
    if os.geteuid() != 0:
        print("make container needs root: it makes a root file system and enters it", file=sys.stderr)
        return 2
    steps = instructions(CONTAINERFILE.read_text())
    last = {step.word: step.rest for step in steps}
    folder = REPOSITORY / "build/fresh"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _step("a minimal Debian"):
            root = Root(_base("bookworm", folder), folder / "container", folder, is_container=True)
            root.clone("root")
            # What the image of Python has, and Debian's Python has not.
            given = "apt-get update && apt-get install --yes python3-venv && ln -sf python3 /usr/bin/python"
            root.run(given, "root", "base", SERVE_SECONDS)
        for number, command in enumerate(commands(steps, "/root/ronda")):
            with _step(shlex.split(command.partition("&& ")[2] or command)[0] + f" (step {number})"):
                root.run(command, "root", f"step-{number}", SERVE_SECONDS)
        user = last["USER"].partition(":")[0]
        name = root.run(f"id --name --user {user}", "root", "user", 60).strip()
        words = [*json.loads(last["ENTRYPOINT"]), *json.loads(last["CMD"])]
        with _step(f"as {name} ({user}): {shlex.join(words)}"):
            command = f"cd /tmp; PATH=/opt/ronda/bin:$PATH XDG_STATE_HOME=/var/lib python3 - {shlex.join(words)}"
            said = root.run(command, name, "serve", SERVE_SECONDS, program="container_serve.py")
        print(f"    {said.splitlines()[-1]}")
        root.remove()
    except Failed as failure:
        print(f"FAILED: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
