"""Starts one program behind Landlock and the filter, and outlives it until the last of its processes is gone.

Run by the server's own Python as a file, with a plan in JSON on a pipe, so it imports nothing of ours. It keeps the server's
rights, and its child gives them up. Processes that lose their parent become children of this one (a subreaper), so that none gets
away. When the control pipe closes the server is dead, and on SIGTERM it is done with it: everything is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import Any

_SET_PDEATHSIG, _SET_SECCOMP, _SET_SUBREAPER, _NO_NEW_PRIVS = 1, 22, 36, 38
_FILTER_MODE = 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every machine
_PATH_BENEATH = 1
_NEIGHBOURS = 8  # tasks that others of our uid may start while we count

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    plan_fd, control, status = (int(word) for word in sys.argv[1:4])
    for fd in (plan_fd, control, status):
        os.set_inheritable(fd, False)
    with os.fdopen(plan_fd, "rb") as file:
        plan: dict[str, Any] = json.loads(file.read())
    _prctl(_SET_SUBREAPER, 1)
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _become(plan, parent, status)
    for fd in (0, 1, 2, status, *([plan["channel"]] if plan["channel"] is not None else [])):
        os.close(fd)
    code = _watch(child, wake, control)
    _end_all(plan["uid"])
    os._exit(code)


def _watch(child: int, wake: int, control: int) -> int:
    """Waits until the child has ended, or the server wants it to; takes in every process that ends meanwhile."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == control:  # nothing is ever written to it: it was closed
                return 128 + signal.SIGKILL
            if signal.SIGTERM in os.read(wake, 4096):
                return 128 + signal.SIGKILL
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                if pid == child:
                    code = os.waitstatus_to_exitcode(status)
                    return code if code >= 0 else 128 - code


def _end_all(uid: int | None) -> None:
    """Kills until no child is left: those whose parent dies become ours, and one may have been born while we looked."""
    while True:
        if uid is None:
            _stop(_descendants())
        else:
            _stop_as(uid, _descendants())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _stop(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))  # it cannot outrun us by starting others
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _stop_as(uid: int, pids: list[int]) -> None:
    """As their own user: root may lack the right to set limits of others (a container's root does)."""
    killer = os.fork()
    if killer == 0:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            _stop([pid for pid in pids if pid != os.getpid()])
        finally:
            os._exit(0)
    os.waitpid(killer, 0)


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _become(plan: dict[str, Any], parent: int, status: int) -> None:
    """In the child: gives up every right but what the plan leaves, and becomes the program. Says on `status` why it could not."""
    step = "start"
    try:
        signal.set_wakeup_fd(-1)
        may_write = plan["limits"]["FSIZE"][0] > 0  # else it goes on after it has tried: Python ignores the signal
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, *([signal.SIGXFSZ] if may_write else [])):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        status = fcntl.fcntl(status, fcntl.F_DUPFD_CLOEXEC, 10)
        if plan["channel"] is not None and plan["channel"] != 3:  # some shells know only descriptors of one digit
            os.dup2(plan["channel"], 3)
            os.close(plan["channel"])
        step = "set its limits"
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # when memory runs out, this goes first
        _set_limits(plan)
        if plan["uid"] is not None:
            step = "become another user"
            os.setgroups([])
            os.setresgid(plan["gid"], plan["gid"], plan["gid"])
            os.setresuid(plan["uid"], plan["uid"], plan["uid"])
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(126)
        _prctl(_NO_NEW_PRIVS, 1)
        step = "enter " + plan["cwd"]
        os.chdir(plan["cwd"])
        if plan["landlock"] is not None:
            step = "put up Landlock"
            _fence(plan["landlock"])
        if plan["filter"] is not None:
            step = "install its seccomp filter"
            _filter(bytes.fromhex(plan["filter"]))
        step = "start " + plan["argv"][0]
        os.execve(plan["argv"][0], plan["argv"], plan["env"])
    except BaseException as error:  # nothing may go on after a step that failed
        reason = error.strerror if isinstance(error, OSError) else repr(error)
        os.write(status, ("cannot " + step + ": " + str(reason)).encode())
    finally:
        os._exit(126)


def _set_limits(plan: dict[str, Any]) -> None:
    for name, (soft, hard) in plan["limits"].items():
        kind = getattr(resource, "RLIMIT_" + name, None)
        if kind is None:
            continue
        if name == "NPROC" and plan["uid"] is None:  # counted for the uid, which has other processes, too
            soft = hard = soft + _tasks_of_ours()
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def _tasks_of_ours() -> int:
    """How many tasks the kernel counts for our uid. Some may be in other containers, where we do not see them: then it is found
    by trying, since a limit below what there is lets no process start."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    seen = _tasks_seen(os.getuid())
    low, high = seen, seen + _NEIGHBOURS
    if _may_fork_within(high, hard):
        return seen
    while not _may_fork_within(high, hard):
        low, high = high, 2 * high
        if hard != resource.RLIM_INFINITY and high >= hard:
            return hard
    while high - low > _NEIGHBOURS:
        middle = (low + high) // 2
        if _may_fork_within(middle, hard):
            high = middle
        else:
            low = middle
    return high


def _may_fork_within(limit: int, hard: int) -> bool:
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))
    try:
        child = os.fork()
    except BlockingIOError:
        return False
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


def _tasks_seen(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/status", "rb") as file:  # a process that hides has a folder of root's
                    facts = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
                if int(facts[b"Uid"].split()[0]) == uid:
                    count += int(facts[b"Threads"])
            except (OSError, KeyError):
                continue
    return count


def _fence(plan: dict[str, Any]) -> None:
    attributes = struct.pack("=QQQ", plan["fs"], plan["net"], plan["scoped"])[: plan["size"]]
    ruleset = _call(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0)
    for path, rights in plan["rules"]:
        try:
            at = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what cannot be reached cannot be opened, either
        rule = struct.pack("=Qi", rights, at)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
        os.close(at)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _filter(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    pointed = Program(len(program) // 8, ctypes.addressof(steps))
    _prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(pointed))


def _prctl(option: int, *arguments: int) -> None:
    words = [ctypes.c_ulong(word) for word in (*arguments, 0, 0, 0, 0)][:4]
    if _libc.prctl(option, *words) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _call(number: int, *arguments: Any) -> int:
    answer = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


if __name__ == "__main__":
    main()
