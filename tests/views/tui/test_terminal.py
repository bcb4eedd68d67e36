"""`chiplog watch` in a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from chiplog.views.tui.terminal import keyboard, keys
from tests.views.web import stores


class Terminal:
    """A terminal that understands what the screen sends: places, lines, and nothing else."""

    def __init__(self, root: Path, *words: str, columns: int = 80, lines: int = 24) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "XDG_CACHE_HOME": str(root / ".cache"), "PYTHONUTF8": "1"}
        environ.pop("COLUMNS", None)
        environ.pop("LINES", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chiplog", "--dir", str(root), "watch", *words],
            stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._master = master
        self.raw = b""
        self.rows: dict[int, str] = {}

    def press(self, data: bytes) -> None:
        os.write(self._master, data)

    def wait(self, words: str, seconds: float = 30.0) -> str:
        """Until the screen shows something."""
        end = time.monotonic() + seconds
        while words not in self.text and time.monotonic() < end:
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    data = os.read(self._master, 65536)
                except OSError:
                    break
                self.raw += data
                for row, line in re.findall(
                    r"\x1b\[(\d+);1H(.*?)\x1b\[K", self.raw.decode("utf-8", "ignore"), re.DOTALL
                ):
                    self.rows[int(row)] = re.sub(r"\x1b\[[0-9;]*m", "", line)
        assert words in self.text, self.raw[-2000:]
        return self.text

    @property
    def text(self) -> str:
        return "\n".join(self.rows[row] for row in sorted(self.rows))

    def close(self) -> int:
        try:
            return self.process.wait(20)
        finally:
            os.close(self._master)


def test_a_person_looks_at_a_run_and_leaves(tmp_path: Path) -> None:
    """The list, a run, another panel; at the end the terminal is as it was."""
    stores.rich(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.wait("everything at once")
    terminal.press(b"\r")
    terminal.wait("train/grad_norm")
    terminal.press(b"3")
    terminal.wait("highest: rank 2")
    terminal.press(b"\x1b")
    terminal.wait("1 run, newest first")
    terminal.press(b"q")
    assert terminal.close() == 0
    assert b"\x1b[?1049h" in terminal.raw


@pytest.mark.parametrize(
    ("data", "found"),
    [(b"a", ["a"]), (b"\x1b[A\x1b[B", ["up", "down"]), (b"\x1b", ["esc"]), (b"\x1b[5~q", ["pgup", "q"]), ("é/".encode(), ["é", "/"]),
     (b"\x1b[99;5u", []), (b"\x1b[200~", []), (b"\r\x7f\t", ["enter", "backspace", "tab"]), (b"\x03", ["ctrl-c"])],
)  # fmt: skip
def test_keys_are_understood(data: bytes, found: list[str]) -> None:
    """Sequences that mean nothing here are passed over whole."""
    assert list(keys(data)) == found


def test_the_keys_of_a_windows_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are polled, and special ones have two characters."""
    pressed = [*"q\r\x03ä", *"\xe0H", *"\x00P", *"\xe0I", *"\xe0Z"]
    console = SimpleNamespace(kbhit=lambda: bool(pressed), getwch=lambda: pressed.pop(0))
    monkeypatch.setitem(sys.modules, "termios", None)
    monkeypatch.setitem(sys.modules, "msvcrt", console)
    with keyboard() as read:
        data = []
        while pressed:
            data.append(read(1.0))
        assert read(0.01) is None
    assert data.pop() is None  # a key of which we know nothing
    named = [list(keys(one)) for one in data if one is not None]
    assert named == [["q"], ["enter"], ["ctrl-c"], ["ä"], ["up"], ["down"], ["pgup"]]
