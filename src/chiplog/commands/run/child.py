"""A child process whose output passes through this process, on a terminal if there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import BinaryIO

LINGER = 2.0  # s to wait for output after the end: something that the command started may keep the pipe open
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Child:
    """A command that was started. What it prints is written to our own streams as it comes."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        ours = (sys.stdout.buffer, sys.stderr.buffer)
        ends = [_pair(stream) for stream in ours]
        environ = {"PYTHONUNBUFFERED": "1", **environ}  # otherwise Python keeps what it prints to a pipe
        self._process = subprocess.Popen(command, stdout=ends[0][1], stderr=ends[1][1], env=environ)
        for _, theirs in ends:
            os.close(theirs)
        self._readers = [
            threading.Thread(target=_pass_on, args=(end, stream), daemon=True)
            for (end, _), stream in zip(ends, ours, strict=True)
        ]
        for reader in self._readers:
            reader.start()

    def wait(self) -> int:
        """Wait for the end; the exit code is negative for a signal. Signals to us are passed on."""
        before = {number: signal.signal(number, self._forward) for number in FORWARDED}
        before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        try:
            code = self._process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        for reader in self._readers:
            reader.join(LINGER)
        return code

    def _forward(self, number: int, _: FrameType | None) -> None:
        self._process.send_signal(number)

    def _interrupt(self, number: int, _: FrameType | None) -> None:
        """A terminal interrupts both of us; anybody else only us."""
        if not sys.stdin.isatty():
            self._process.send_signal(number)


def _pair(stream: BinaryIO) -> tuple[int, int]:
    """The two ends of a pipe, or of a terminal of the same size, if the stream is one."""
    if not stream.isatty():
        return os.pipe()
    import fcntl
    import termios

    end, theirs = os.openpty()
    size = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST  # our own terminal ends the lines
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    return end, theirs


def _pass_on(end: int, stream: BinaryIO) -> None:
    while True:
        try:
            data = os.read(end, 1 << 16)
        except OSError:  # the other end of a terminal is closed
            data = b""
        if not data:
            os.close(end)
            return
        try:
            stream.write(data)
            stream.flush()
        except (OSError, ValueError):  # our output is no longer read; the command continues
            continue
