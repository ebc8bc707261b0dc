"""The first thing that runs inside bubblewrap: sets the limits, opens the proxy's port if there is one, and becomes the program.

It must be in here: the number of processes is counted for each user namespace, and a port belongs to a network namespace.
Run as a text by whatever Python is inside (3.8 or newer), so it imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys


def reset_signals(limits: dict[str, list[int]]) -> None:
    """As a shell starts a program: Python ignores two, and whatever it becomes would. A program that may write no files goes on
    after it has tried."""
    import signal

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if limits["FSIZE"][0]:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def main() -> None:
    import resource

    plan = json.loads(sys.argv[1])
    if os.read(plan["go"], 1) != b"!":  # the server is gone before it was ready to watch
        os._exit(125)
    os.close(plan["go"])
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, this goes first
    for name, (soft, hard) in plan["limits"].items():
        kind = getattr(resource, "RLIMIT_" + name, None)
        if kind is not None:
            most = resource.getrlimit(kind)[1]
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            resource.setrlimit(kind, (soft, hard))
    if plan["listen"] is not None:
        import socket

        fd, port = plan["listen"]
        with socket.socket() as listener, socket.socket(fileno=fd) as server:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(64)
            socket.send_fds(server, [b"listening"], [listener.fileno()])
    if plan["channel"] is not None and plan["channel"] != 3:  # some shells know only descriptors of one digit
        os.dup2(plan["channel"], 3)
        os.close(plan["channel"])
    program = sys.argv[2:]
    if plan["in_place"]:  # the program is Python's, and this is the Python for it: no second one has to start
        sys.argv = ["-c"]
        exec(compile(program[-1], "<program>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
        return
    reset_signals(plan["limits"])
    try:
        os.execve(program[0], program, os.environ)
    except OSError as error:
        sys.stderr.write("the sandbox cannot start " + program[0] + ": " + str(error.strerror) + "\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
