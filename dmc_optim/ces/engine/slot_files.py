"""The files that the runs of one sandbox have as stdin, stdout and stderr: made once, emptied between runs.

A run holds the same open files as the one before it. That carries nothing over: every process of the earlier run
is dead; contents, offsets, locks and the flags that a program can set on an open file are reset here; what else
would stay with a file (attributes, leases, the size of a pipe) is refused by seccomp.
"""

import fcntl
import os

_STDERR_READS = 64  # at one go, so that a flood cannot keep the supervisor from its clock


class SlotFiles:
    """stdin: a small input is written into the file; a big one comes as a descriptor of its own (see `blobs`)."""

    def __init__(self) -> None:
        self._stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
        os.fchmod(self._stdin, 0o444)  # so that a program cannot open it for writing
        self.stdin = os.open(f"/proc/self/fd/{self._stdin}", os.O_RDONLY | os.O_CLOEXEC)
        self.stdout = os.memfd_create("stdout", os.MFD_CLOEXEC)
        # the write end stays open here, so that a dead sandbox is no end of file on the pipe
        self.stderr, self.stderr_write = os.pipe2(os.O_CLOEXEC)
        os.fchmod(self.stderr_write, 0o622)  # so that a program can open /dev/stderr
        os.set_blocking(self.stderr, False)
        self._input_bytes = 0
        self._errors = bytearray()
        self._stdout_flags = fcntl.fcntl(self.stdout, fcntl.F_GETFL)

    def prepare(self, text: bytes) -> None:
        """Empty everything and put an input into stdin."""
        if text:
            os.pwrite(self._stdin, text, 0)
        if len(text) < self._input_bytes or os.fstat(self._stdin).st_size != len(text):
            os.ftruncate(self._stdin, len(text))
        self._input_bytes = len(text)
        os.ftruncate(self.stdout, 0)
        for fd, flags in (
            (self.stdin, os.O_RDONLY),
            (self.stdout, self._stdout_flags),
            (self.stderr_write, os.O_WRONLY),
        ):
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.lseek(self.stdin, 0, os.SEEK_SET)
        os.lseek(self.stdout, 0, os.SEEK_SET)
        while self.drain(0):
            pass
        self._errors.clear()

    def output_bytes(self) -> int:
        """How much a run wrote to stdout."""
        return os.fstat(self.stdout).st_size

    def output(self, cap: int) -> bytes:
        """What it wrote, up to a cap."""
        return os.pread(self.stdout, cap, 0)

    def drain(self, cap: int) -> bool:
        """Take what is in the stderr pipe; keep the head and the tail of it, cap bytes in all. True: there is more."""
        for _ in range(_STDERR_READS):
            try:
                part = os.read(self.stderr, 1 << 16)
            except BlockingIOError:
                return False
            self._errors += part
            if len(self._errors) > cap:
                del self._errors[cap // 2 : len(self._errors) - cap // 2]
        return True

    def errors(self) -> bytes:
        """What was kept of stderr."""
        return bytes(self._errors)

    def close(self) -> None:
        """Close everything."""
        for fd in (self._stdin, self.stdin, self.stdout, self.stderr, self.stderr_write):
            os.close(fd)
