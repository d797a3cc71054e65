"""The root directory of a sandbox: a read-only tmpfs with the interpreter, its libraries and nothing else.

Everything is a read-only bind mount at the path it has on the host; /tmp and /dev/shm are two directories of
one size-capped tmpfs, /box holds the program's own source (where programs have a uid of their own).
"""

import os
from pathlib import Path

from dmc_optim.ces.engine import namespaces as ns
from dmc_optim.ces.engine.interpreter import Interpreter

_DEVICES = ("null", "zero", "full", "random", "urandom")
_PASSWD = "root:x:0:0::/:\nnobody:x:65534:65534::/tmp:\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_SCRATCH_INODES = 16_384
_LOCKED_FLAGS = {"nosuid": ns.MS_NOSUID, "nodev": ns.MS_NODEV, "noexec": ns.MS_NOEXEC, "noatime": ns.MS_NOATIME}

STAGE = "/tmp"  # where the new root is put together, in a mount namespace of its own
PRIVATE = "/init"  # readable for the zygote alone


def build(interpreter: Interpreter, owner: int, tmp_bytes: int, zygote_source: str) -> None:
    """Put the root together under STAGE. The caller is alone in its mount namespace, with CAP_SYS_ADMIN over it.

    owner: the uid and gid, as seen from here, of the sandbox's root; 0 where it shares it with its programs.
    Raises OSError naming the mount that failed.
    """
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    sources = _opened([interpreter.executable, *interpreter.stdlib, *(path for path, _ in interpreter.packages)])
    libraries = _opened(list(interpreter.libraries))
    links = _sonames(interpreter.libraries)
    loader = os.open(os.path.realpath(interpreter.loader), os.O_PATH)
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in _DEVICES}
    top_links = {name: os.readlink(f"/{name}") for name in ("lib", "lib64") if os.path.islink(f"/{name}")}

    ns.mount("tmpfs", STAGE, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, "mode=755,size=4m,nr_inodes=4096")
    for name, target in top_links.items():
        os.symlink(target, f"{STAGE}/{name}")
        os.makedirs(f"{STAGE}/{target}", exist_ok=True)
    for path in interpreter.stdlib:
        _bind(sources[path], path)
    _site_directory(interpreter, sources)
    _bind(sources[interpreter.executable], interpreter.executable)
    for path, fd in libraries.items():
        _bind(fd, path)
    for link, target in links:
        _symlink(link, target)
    _bind(loader, interpreter.loader)
    for name, fd in devices.items():
        _bind(fd, f"/dev/{name}", read_only=False)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{STAGE}/dev/{name}")
    _writable(owner, tmp_bytes)
    _write("/etc/passwd", _PASSWD)
    _write("/etc/group", _GROUP)
    os.mkdir(f"{STAGE}{PRIVATE}", 0o700)
    os.mkdir(f"{STAGE}{PRIVATE}/proc")
    _write(f"{PRIVATE}/zygote.py", zygote_source)
    os.mkdir(f"{STAGE}/proc")
    for path in (PRIVATE, f"{PRIVATE}/proc", f"{PRIVATE}/zygote.py"):
        os.chown(f"{STAGE}{path}", owner, owner)
    for fd in (*sources.values(), *libraries.values(), *devices.values(), loader):
        os.close(fd)


def enter(private_proc: bool) -> None:
    """Mount /proc for this pid namespace, make STAGE the root, read-only. The caller is the namespace's init.

    private_proc: a second, writable /proc for the zygote alone. Without it the programs' /proc serves both.
    """
    flags = ns.MS_NOSUID | ns.MS_NODEV | ns.MS_NOEXEC
    if private_proc:
        ns.mount("proc", f"{STAGE}{PRIVATE}/proc", "proc", flags)
        flags |= ns.MS_RDONLY
    ns.mount("proc", f"{STAGE}/proc", "proc", flags, "hidepid=invisible,subset=pid")
    ns.pivot_root(STAGE)
    ns.mount("none", "/", flags=ns.MS_REMOUNT | ns.MS_BIND | ns.MS_RDONLY | ns.MS_NOSUID | ns.MS_NODEV)


def _opened(paths: list[str]) -> dict[str, int]:
    """Path descriptors taken before STAGE hides anything (an interpreter may live under /tmp)."""
    return {path: os.open(path, os.O_PATH) for path in dict.fromkeys(paths)}


def _sonames(libraries: tuple[str, ...]) -> list[tuple[str, str]]:
    """Symbolic links beside the libraries that lead to them, as (link, target)."""
    wanted = set(libraries)
    links = []
    for directory in sorted({str(Path(path).parent) for path in libraries}):
        for entry in os.scandir(directory):
            if entry.is_symlink() and os.path.realpath(entry.path) in wanted and ".so" in entry.name:
                links.append((entry.path, os.path.realpath(entry.path)))
    return links


def _bind(fd: int, path: str, read_only: bool = True) -> None:
    source, target = f"/proc/self/fd/{fd}", f"{STAGE}{path}"
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    ns.mount(source, target, flags=ns.MS_BIND)
    if read_only:
        flags = ns.MS_REMOUNT | ns.MS_BIND | ns.MS_RDONLY | ns.MS_NOSUID | ns.MS_NODEV
        ns.mount("none", target, flags=flags | _locked_flags(target))


def _locked_flags(target: str) -> int:
    """Flags of the source's mount: in a user namespace a remount must keep them."""
    present = os.statvfs(target).f_flag
    return sum(flag for name, flag in _LOCKED_FLAGS.items() if present & getattr(os, f"ST_{name.upper()}"))


def _site_directory(interpreter: Interpreter, sources: dict[str, int]) -> None:
    """Hide the interpreter's own site directory behind one that holds the allowed packages only."""
    target = f"{STAGE}{interpreter.site}"
    os.makedirs(target, exist_ok=True)
    ns.mount("tmpfs", target, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, "mode=755,size=1m,nr_inodes=256")
    for path, name in interpreter.packages:
        _bind(sources[path], f"{interpreter.site}/{name}")
    ns.mount("none", target, flags=ns.MS_REMOUNT | ns.MS_BIND | ns.MS_RDONLY | ns.MS_NOSUID | ns.MS_NODEV)


def _writable(owner: int, tmp_bytes: int) -> None:
    flags = ns.MS_NOSUID | ns.MS_NODEV
    os.makedirs(f"{STAGE}/dev/shm", exist_ok=True)
    mounts = [("/tmp", f"mode=755,uid={owner},gid={owner},size={max(tmp_bytes, 1)},nr_inodes={_SCRATCH_INODES}")]
    if owner != 0:  # programs that share the sandbox's uid could write here, so they get no source file
        mounts.append(("/box", f"mode=755,uid={owner},gid={owner},size=64m,nr_inodes=16"))
    for path, options in mounts:
        os.makedirs(f"{STAGE}{path}", exist_ok=True)
        ns.mount("tmpfs", f"{STAGE}{path}", "tmpfs", flags, options)
    for name in ("shm", "tmp"):  # last, because it covers the tmpfs it is part of
        directory = f"{STAGE}/tmp/{name}"
        os.mkdir(directory)
        os.chmod(directory, 0o1777)
        os.chown(directory, owner, owner)
    ns.mount(f"{STAGE}/tmp/shm", f"{STAGE}/dev/shm", flags=ns.MS_BIND)
    ns.mount(f"{STAGE}/tmp/tmp", f"{STAGE}/tmp", flags=ns.MS_BIND)


def _symlink(link: str, target: str) -> None:
    os.makedirs(os.path.dirname(f"{STAGE}{link}"), exist_ok=True)
    if not os.path.lexists(f"{STAGE}{link}"):
        os.symlink(target, f"{STAGE}{link}")


def _write(path: str, text: str) -> None:
    target = Path(f"{STAGE}{path}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(0o444)
