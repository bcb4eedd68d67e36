"""Shows chiplog another system than the Linux below: what macOS or Windows lack is absent for its modules.

With this folder in PYTHONPATH and OTHER_SYSTEM=macos or =windows, every Python process starts so, and its children too.
The standard library, the packages and the tests still see Linux, because their ways on another system cannot run here.
"""

from __future__ import annotations

import builtins
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

NOT_ON_MACOS = {
    "os": (
        "fdatasync posix_fadvise posix_fallocate pidfd_open sched_getaffinity sched_setaffinity memfd_create eventfd "
        "copy_file_range splice getrandom getxattr setxattr listxattr removexattr unshare setns pipe2 "
        "O_DIRECT O_PATH O_TMPFILE O_NOATIME O_RSYNC"
    ),
    "signal": "sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGSTKFLT SIGPWR SIGPOLL",
    "select": "epoll",
    "time": "CLOCK_BOOTTIME CLOCK_TAI clock_settime",
    "resource": "prlimit",
    "fcntl": "F_GETPIPE_SZ F_SETPIPE_SZ F_ADD_SEALS F_OFD_SETLK",
    "socket": "SO_PEERCRED AF_NETLINK AF_PACKET SOCK_CLOEXEC SOCK_NONBLOCK",
}
NOT_ON_WINDOWS = {
    "os": (
        "uname fork forkpty register_at_fork getuid geteuid getgid getegid getgroups getpgid getpgrp setpgid setsid getsid "
        "killpg nice getpriority setpriority getloadavg statvfs fstatvfs pread pwrite preadv pwritev readv writev fchown "
        "chown lchown chroot mkfifo mknod sync openpty ttyname posix_spawn posix_spawnp wait wait3 wait4 waitid sysconf "
        "confstr ctermid fchdir lockf sendfile O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_SYNC O_DSYNC O_NOCTTY"
    ),
    "signal": (
        "SIGHUP SIGKILL SIGQUIT SIGALRM SIGUSR1 SIGUSR2 SIGWINCH SIGTSTP SIGCONT SIGCHLD SIGPIPE SIGSTOP SIGTTOU "
        "pthread_sigmask pthread_kill sigwait setitimer alarm pause siginterrupt"
    ),
    "select": "poll",
    "socket": "AF_UNIX SO_REUSEPORT",
    "time": "clock_gettime clock_getres CLOCK_MONOTONIC CLOCK_REALTIME pthread_getcpuclockid",
}
NO_MODULE_ON_WINDOWS = ["fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "readline"]
RELATIVE = [
    "open",
    "stat",
    "unlink",
    "mkdir",
    "rename",
    "replace",
    "rmdir",
    "link",
    "symlink",
    "readlink",
    "access",
    "utime",
    "chmod",
]


class Less(ModuleType):
    """A module without some of its names, and with some that differ."""

    def __init__(self, real: ModuleType, absent: Sequence[str], instead: Mapping[str, object]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _absent=frozenset(absent), **instead)

    def __getattr__(self, name: str) -> object:
        if name in self._absent:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on this system")
        return getattr(self._real, name)


def become(system: str) -> None:
    """Let the modules of chiplog import what this system has."""
    windows = system == "windows"
    tables = [NOT_ON_MACOS, *([NOT_ON_WINDOWS] if windows else [])]
    modules = {
        name: Less(
            importlib.import_module(name),
            " ".join(table.get(name, "") for table in tables).split(),
            _windows_os() if windows and name == "os" else {},
        )
        for name in {name for table in tables for name in table}
    }
    absent = set(NO_MODULE_ON_WINDOWS) if windows else set()
    real = builtins.__import__

    def import_(name: str, globals: Mapping[str, object] | None = None, *args: object, **more: object) -> object:
        if globals is not None and str(globals.get("__name__")).partition(".")[0] == "chiplog":
            if name in absent:
                raise ModuleNotFoundError(f"No module named {name!r} on this system", name=name)
            if name in modules:
                return modules[name]
        return real(name, globals, *args, **more)  # type: ignore[arg-type]

    builtins.__import__ = import_  # type: ignore[assignment]
    if windows:
        import asyncio

        def add_signal_handler(*args: object) -> None:
            raise NotImplementedError

        loop = importlib.import_module("asyncio.unix_events")._UnixSelectorEventLoop
        loop.add_signal_handler = add_signal_handler
        assert asyncio.SelectorEventLoop is loop


def _windows_os() -> dict[str, object]:
    """Functions of `os` that exist on Windows and do less, or worse."""

    def by_path(name: str) -> Callable[..., object]:
        def call(path: object, *args: object, dir_fd: int | None = None, **more: object) -> object:
            if dir_fd is not None:
                raise NotImplementedError(f"{name}: dir_fd unavailable on this platform")
            if name == "utime" and isinstance(path, int):
                raise TypeError(f"{name}: path should be string, bytes or os.PathLike, not int")
            if name == "open" and not isinstance(path, int) and os.path.isdir(path):  # noqa: PTH112
                raise PermissionError(13, "Permission denied", str(path))
            return getattr(os, name)(path, *args, **more)

        return call

    def listing(name: str) -> Callable[..., object]:
        def call(path: object = ".") -> object:
            if isinstance(path, int):
                raise TypeError(f"{name}: path should be string, bytes, os.PathLike or None, not int")
            return getattr(os, name)(path)

        return call

    def kill(pid: int, number: int) -> None:
        raise AssertionError(f"os.kill({pid}, {number}) would end the process, or send it a Ctrl-C")

    return {
        **{name: by_path(name) for name in RELATIVE},
        **{name: listing(name) for name in ("scandir", "listdir")},
        **{name: set() for name in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks")},
        "kill": kill,
    }


if os.environ.get("OTHER_SYSTEM"):
    become(os.environ["OTHER_SYSTEM"])
