"""Attempts to see, reach or change what is not the program's own. Each prints what it got: nothing.

POISON is run before an ordinary program, which must not notice.
"""

from tests.ces_engine.variants import Variant as V

_TRY = "import os\ngot = []\ndef attempt(name, action):\n    try:\n        if action() not in (-1, None): got.append(name)\n    except Exception: pass\n"
_END = "\nprint(got)"
NOTHING = b"[]"


def _attempts(body: str) -> V:
    return V("S", _TRY + body + _END, NOTHING)


ESCAPES = {
    "host_files": _attempts("for p in ('/etc/shadow', '/etc/hostname', '/root/.bashrc', '/var/log', '/sys/kernel', '/boot', '/run', '/home', '/mnt', '/opt', '/data', '/srv'): attempt(p, lambda: os.listdir(p) or None if os.path.isdir(p) else open(p).read())\ngot = [g for g in got if g not in ('/root', '/home', '/opt')]"),
    "proc_of_others": _attempts("for pid in range(1, 200):\n    if pid != os.getpid():\n        for n in ('mem', 'environ', 'maps', 'cmdline', 'fd/0', 'root/etc', 'cwd', 'exe', 'stack', 'syscall', 'task'):\n            attempt((pid, n), lambda: os.stat(f'/proc/{pid}/{n}'))"),
    "proc_of_the_system": _attempts("for p in ('sys/kernel/core_pattern', 'sysrq-trigger', 'kcore', 'keys', 'mounts/x', 'meminfo', 'version', 'net/tcp', 'kallsyms', 'cmdline', 'config.gz', 'modules', 'partitions'): attempt(p, lambda: open('/proc/' + p).read(1))"),
    "own_mem_of_init_by_thread": _attempts("for p in ('/proc/1/task/1/mem', '/proc/self/../1/mem', '/proc/thread-self/../../../1/environ', '/proc/self/root/../init'): attempt(p, lambda: open(p, 'rb').read(1))"),
    "private_directory": _attempts("attempt('list', lambda: os.listdir('/init'))\nattempt('read', lambda: open('/init/zygote.py').read())\nattempt('proc', lambda: os.listdir('/init/proc'))\nattempt('chdir', lambda: os.chdir('/init') or 1)"),
    "descriptors_high": _attempts("for fd in range(3, 5000): attempt(fd, lambda: os.fstat(fd))"),
    "outside_by_descriptor": _attempts("d = os.open('/', os.O_RDONLY)\nattempt('up', lambda: sorted(set(os.listdir(os.open('../../..', os.O_RDONLY, dir_fd=d))) - set(os.listdir('/'))) or None)\nattempt('chroot', lambda: os.chroot('/tmp') or 1)"),
    "network": _attempts("import socket\nfor f, a in ((2, ('127.0.0.1', 22)), (2, ('8.8.8.8', 53)), (2, ('169.254.169.254', 80)), (10, ('::1', 22))):\n    for k in (1, 2, 3):\n        def go():\n            s = socket.socket(f, k); s.settimeout(1); s.connect(a); return s.send(b'x')\n        attempt((f, a, k), go)\nattempt('name', lambda: socket.gethostbyname('example.org'))"),
    "network_interfaces": _attempts("import socket, fcntl\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nattempt('up', lambda: fcntl.ioctl(s, 0x8914, b'lo' + bytes(14) + b'\\x41\\x00' + bytes(14)))\nattempt('other', lambda: [n for _, n in socket.if_nameindex() if n not in ('lo', 'sit0', 'ip6tnl0', 'tunl0', 'gre0', 'gretap0', 'erspan0', 'ip_vti0', 'ip6_vti0', 'ip6gre0')] or None)"),
    "raw_and_odd_sockets": _attempts("import socket\nfor f in (16, 17, 29, 31, 36, 38, 40, 41, 43, 44, 45): attempt(f, lambda: socket.socket(f, 3))\nattempt('raw', lambda: socket.socket(2, 3, 1))\nattempt('pair', lambda: socket.socketpair(16))"),
    "abstract_sockets_of_the_host": _attempts("import socket\nfor n in ('dmc-optim-core-0', 'dmc-optim-core-1', '/containerd-shim', '@/tmp/.X11-unix/X0'):\n    attempt(n, lambda: socket.socket(1, 2).connect('\\0' + n) or 1)"),
    "tracing": _attempts("import ctypes\nl = ctypes.CDLL(None)\nattempt('traceme', lambda: l.ptrace(0, 0, 0, 0))\nattempt('attach', lambda: l.ptrace(16, os.getppid(), 0, 0))\nattempt('seize', lambda: l.ptrace(0x4206, 1, 0, 0))\np = os.fork()\nif p == 0:\n    import time; time.sleep(9)\nattempt('child', lambda: l.ptrace(16, p, 0, 0))\nos.kill(p, 9)"),
    "namespaces": _attempts("import ctypes\nl = ctypes.CDLL(None)\nfor f in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80): attempt(hex(f), lambda: l.unshare(f) + 1 or None)\nfor f in (0x10000000 | 17, 0x20000 | 17):\n    r = l.syscall(56, f, 0, 0, 0, 0)\n    if r == 0: os._exit(0)\n    attempt(f, lambda: r)\nfor n in os.listdir('/proc/self/ns'): attempt(n, lambda: l.setns(os.open('/proc/self/ns/' + n, 0), 0) + 1 or None)"),
    "mounts": _attempts("import ctypes\nl = ctypes.CDLL(None)\nfor k in (b'tmpfs', b'proc', b'sysfs', b'overlay', b'cgroup'): attempt(k, lambda: l.mount(b'none', b'/tmp', k, 0, None) + 1 or None)\nattempt('bind', lambda: l.mount(b'/', b'/tmp', None, 4096, None) + 1 or None)\nattempt('remount', lambda: l.mount(b'none', b'/', None, 32 | 4096, None) + 1 or None)\nattempt('umount', lambda: l.umount2(b'/tmp', 2) + 1 or None)\nfor n in (428, 429, 430, 432, 442): attempt(n, lambda: l.syscall(n, -100, b'/', 1, 0, 0) + 1 or None)"),
    "identities": _attempts("attempt('uid', lambda: os.setuid(0) or 1)\nattempt('res', lambda: os.setresuid(0, 0, 0) or 1)\nattempt('gid', lambda: os.setgid(0) or 1)\nattempt('groups', lambda: os.setgroups([0]) or 1)\nimport ctypes\nl = ctypes.CDLL(None)\nattempt('keepcaps', lambda: l.prctl(8, 1, 0, 0, 0) + 1 and l.capset(b'\\x22\\x05\\x08\\x20' + bytes(4), b'\\xff' * 24) + 1 or None)\nattempt('ambient', lambda: l.prctl(47, 2, 21, 0, 0) + 1 or None)"),
    "set_uid_file": _attempts("import shutil, sys, subprocess\nshutil.copy(sys.executable, '/tmp/p')\nos.chmod('/tmp/p', 0o6755)\nattempt('root', lambda: subprocess.run(['/tmp/p', '-c', 'import os; print(os.geteuid())'], capture_output=True).stdout == b'0\\n' or None)"),
    "signals_to_all": V("S", "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nfor pid in (-1, 1, os.getppid(), *range(2, 300)):\n    if pid != os.getpid():\n        for s in (15,) if pid == -1 else (9, 19, 15):\n            try: os.kill(pid, s)\n            except OSError: pass\nfor g in range(1, 50):\n    if g != os.getpgrp():\n        try: os.killpg(g, 9)\n        except OSError: pass\nprint('alive')", b"alive"),
    "signal_by_descriptor": _attempts("import signal\nfor pid in (1, os.getppid()):\n    attempt(pid, lambda: signal.pidfd_send_signal(os.open(f'/proc/{pid}', os.O_DIRECTORY), 9) or 1)\n    attempt((pid, 2), lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 9) or 1)"),
    "limits_of_others": _attempts("import resource\nfor pid in (1, os.getppid()): attempt(pid, lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)) or 1)"),
    "limits_raised": _attempts("import resource\nfor n in (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_STACK): attempt(n, lambda: resource.setrlimit(n, (-1, -1)) or 1)\nattempt('nice', lambda: os.nice(-1) + 99)"),
    "scheduling": _attempts("attempt('affinity', lambda: os.sched_setaffinity(0, range(64)) or 1)\nattempt('fifo', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) or 1)\nattempt('idle', lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)) or 1)\nattempt('priority', lambda: os.setpriority(os.PRIO_USER, 0, 19) or 1)"),
    "interpreter_files": _attempts("import sys, sysconfig, numpy, json\nfor f in (json.__file__, numpy.__file__, sys.executable, os.__file__, sysconfig.get_path('purelib') + '/evil.pth', sysconfig.get_path('stdlib') + '/sitecustomize.py', __file__, '/box/x.py', '/etc/passwd', '/lib/x'):\n    attempt(f, lambda: open(f, 'ab'))\n    attempt((f, 'chmod'), lambda: os.chmod(f, 0o777) or 1)\n    attempt((f, 'rename'), lambda: os.rename(f, f + 'x') or 1)\n    attempt((f, 'unlink'), lambda: os.unlink(f) or 1)\n    attempt((f, 'link'), lambda: os.link(f, '/tmp/linked') or 1)"),
    "bytecode_cache": _attempts("import json\nd = os.path.dirname(json.__file__) + '/__pycache__'\nattempt('write', lambda: open(d + '/decoder.cpython-311.pyc', 'wb'))\nattempt('make', lambda: os.mkdir(d + '2') or 1)"),
    "cgroup_files": _attempts("for r in ('/sys/fs/cgroup', '/proc/self/cgroup'): attempt(r, lambda: os.listdir(r) if os.path.isdir(r) else [l for l in open(r) if l.strip().rpartition(':')[2] not in ('/', '')] or None)"),
    "devices": _attempts("import stat\nattempt('node', lambda: os.mknod('/tmp/mem', 0o666 | stat.S_IFCHR, os.makedev(1, 1)) or 1)\nfor d in ('kmsg', 'mem', 'kvm', 'sda', 'vda', 'tty', 'ptmx', 'net/tun', 'fuse', 'loop0', 'cuse', 'userfaultfd'): attempt(d, lambda: os.open('/dev/' + d, os.O_RDWR))"),
    "system_v": _attempts("import ctypes\nl = ctypes.CDLL(None)\nattempt('shm', lambda: l.shmget(1, 4096, 0o1666) + 1 or None)\nattempt('sem', lambda: l.semget(1, 1, 0o1666) + 1 or None)\nattempt('msg', lambda: l.msgget(1, 0o1666) + 1 or None)\nattempt('mq', lambda: l.syscall(240, b'q', 0o100, 0o666, 0) + 1 or None)"),
    "kernel_surface": _attempts("import ctypes\nl = ctypes.CDLL(None)\nfor n in (246, 250, 248, 298, 310, 311, 312, 317, 321, 323, 425, 438, 175, 313, 169, 167, 103, 155, 161, 304, 135, 154, 172, 227, 188, 190): attempt(n, lambda: l.syscall(n, 0, 0, 0, 0, 0, 0) + 1 or None)\nattempt('x32', lambda: l.syscall(0x40000000 | 39) + 1 or None)"),
    "own_memory_for_answers": V("S", "import gc\nkey = 'ANSWER-' + str(6 * 7)\nfound = 0\nfor line in open('/proc/self/maps'):\n    ext, acc, *_ = line.split()\n    if acc[0] == 'r' and '[v' not in line:\n        a, b = (int(x, 16) for x in ext.split('-'))\n        import ctypes\n        try: found += ctypes.string_at(a, b - a).count(key.encode()) if acc[1] == '-' and '/' in line else 0\n        except Exception: pass\nprint(found, any(key in repr(o)[:9999] and '6 * 7' not in repr(o)[:9999] for o in gc.get_objects() if type(o) is str), 'ANSWER-' '41')", b"0 False ANSWER-41"),
    "runner_by_frames": V("S", "import sys\nf = sys._getframe()\nseen = set()\nwhile f:\n    for d in (f.f_locals, f.f_globals):\n        for k, v in list(d.items()):\n            if type(v).__name__ in ('socket', 'memoryview'): seen.add(k)\n    f = f.f_back\nprint(seen)", b"set()"),
    "runner_by_collector": V("S", "import gc, socket\nprint([o for o in gc.get_objects() if type(o).__name__ == 'socket' and o.fileno() >= 0])", NOTHING),
}  # fmt: skip

POISON = {
    "builtins": "import builtins\nbuiltins.print = builtins.input = builtins.exec = builtins.isinstance = None",
    "modules": "import sys\nfor n in list(sys.modules):\n    if n != 'sys': sys.modules[n] = None",
    "os_functions": "import os, signal\nos.fork = os._exit = os.wait4 = os.waitid = os.kill = lambda *a: 0\nsignal.signal = lambda *a: 0",
    "frames_of_the_runner": "import sys\nf = sys._getframe().f_back\nwhile f:\n    f.f_globals.clear()\n    f = f.f_back",
    "constants": "import ctypes\nctypes.memset(id(7) + 24, 9, 1)",
    "small_strings": "import ctypes, sys\nctypes.memset(id(sys.intern('__main__')) + 48, 65, 4)",
    "code_objects": "import sys, ctypes\nc = sys._getframe().f_back.f_code\nctypes.memset(id(c) + 40, 0, 64)",
    "shared_page": "import ctypes\nfor l in open('/proc/self/maps'):\n    if 'rw-s' in l:\n        a, b = (int(x, 16) for x in l.split()[0].split('-'))\n        ctypes.memset(a, 255, b - a)",
    "handlers": "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "streams": "import fcntl, os\nfor fd in (0, 1, 2):\n    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK | os.O_ASYNC | os.O_NOATIME if 0 else os.O_APPEND | os.O_NONBLOCK)\n    try: fcntl.flock(fd, fcntl.LOCK_EX)\n    except OSError: pass\nos.lseek(0, 7, 0)\nos.lseek(1, 99, 0)",
    "output_grown": "import os\nos.ftruncate(1, 1 << 20)\nos.lseek(1, 1 << 19, 0)",
    "working_directory": "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\nos.umask(0o777)",
    "scratch_modules": "for d in ('/tmp/', '/dev/shm/'):\n    for n in ('sitecustomize', 'usercustomize', 'os', 'json', 'solution', 'zygote'):\n        open(d + n + '.py', 'w').write('raise SystemExit(9)')",
    "names_of_the_cleaner": "import os\nfor r in ('/tmp', '/dev/shm'):\n    for n in range(60):\n        os.makedirs(f'{r}/{n}/a/b/c'); os.makedirs(f'{r}/.{n}/{n}/{n}'); open(f'{r}/.1.{n}', 'w').close()",
    "inodes": "import os\nn = 0\ntry:\n    while True: os.mkdir(f'/tmp/{n}'); os.mkdir(f'/tmp/{n}/{n}'); n += 1\nexcept OSError: pass",
    "space": "try:\n    for n in range(99): open(f'/dev/shm/{n}', 'wb').write(bytes(10 << 20))\nexcept OSError: pass",
    "processes": "import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\nexcept OSError: pass",
    "descriptors": "import os\ntry:\n    while True: os.dup(1)\nexcept OSError: pass",
    "sockets": "import socket, os, time\nsocket.socket(1).bind('\\0left')\nif os.fork() == 0:\n    s = socket.socket(1); s.bind('\\0kept'); s.listen(); time.sleep(60)",
    "clock_functions": "import time, resource\ntime.monotonic_ns = time.process_time_ns = lambda: 0\nresource.getrusage = None",
    "priority": "import os\ntry: os.nice(19)\nexcept OSError: pass",
    "recursion": "import sys\nsys.setrecursionlimit(30)\nsys.setswitchinterval(100)",
    "template_crash": "import os\nfor fd in range(3, 100):\n    try: os.close(fd)\n    except OSError: pass\nos.kill(os.getppid(), 11) if 0 else None\nos.abort()",
}  # fmt: skip
