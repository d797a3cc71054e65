"""Inside the sandbox: kill and reap what a run leaves, empty its scratch directories."""

import os
import resource
import signal


def kill_all(pid_namespace: int) -> list[resource.struct_rusage]:
    """Kill and reap everything below this process. Returns the rusages of what was reaped.

    pid_namespace: this process may kill all it can see (its init is immune); otherwise only its descendants.
    """
    usages: list[resource.struct_rusage] = []
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return usages
        if pid == 0:
            kill_now(pid_namespace)
            pid, _, usage = os.wait4(-1, 0)
        usages.append(usage)


def kill_now(pid_namespace: int) -> None:
    """Send the signal to everything below this process."""
    if not pid_namespace:
        kill_descendants()
        return
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass


def kill_descendants() -> None:
    """Stop, then kill, by walking the process table: what is stopped first cannot fork faster than the walk.

    Each is told to stop once and not waited for: the parent of a vfork only stops when its child lets it go on.
    """
    told: set[int] = set()
    while running := [pid for pid in descendants(but_not="ZXTt") if pid not in told]:
        send(running, signal.SIGSTOP)
        told.update(running)
    while left := descendants(but_not="ZX"):
        send(left, signal.SIGKILL)


def descendants(but_not: str) -> list[int]:
    """Processes below this one whose state is none of the letters."""
    children: dict[int, list[tuple[int, str]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            children.setdefault(int(parent), []).append((int(name), state))
    found: list[int] = []
    front = [os.getpid()]
    while front:
        for child, state in children.get(front.pop(), ()):
            front.append(child)
            if state not in but_not:
                found.append(child)
    return found


def send(pids: list[int], number: int) -> None:
    """A signal to each; one that is gone is as good as reached."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def empty_directory(root: str) -> None:
    """Delete everything in root, without recursion: nested directories are first moved up to it."""
    moved = 0
    pending = True
    while pending:
        pending = False
        for entry in list(os.scandir(root)):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    moved += 1
                    while os.path.lexists(f"{root}/{moved}"):  # a program may have taken any name
                        moved += 1
                    os.rename(inner.path, f"{root}/{moved}")
                    pending = True
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)
