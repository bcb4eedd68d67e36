"""A program on a terminal, and what the screen shows when it has ended."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

_TOKEN = re.compile(r"\x1b\[(\?)?(\d*)(?:;\d+)*([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def rows_of(command: Sequence[str], cwd: Path, *, columns: int = 200) -> list[str]:
    """The rows on the screen after a command has ended; it must succeed."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 500, columns, 0, 0))
    environ = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environ.pop("COLUMNS", None)
    with subprocess.Popen(command, cwd=cwd, env=environ, stdin=follower, stdout=follower, stderr=follower) as process:
        os.close(follower)
        data = b""
        try:
            while piece := os.read(leader, 1 << 16):
                data += piece
        except OSError:  # the end, as Linux reports it
            pass
        finally:
            os.close(leader)
    assert process.returncode == 0, data.decode(errors="replace")
    return screen(data.decode(errors="replace"))


def screen(text: str) -> list[str]:
    """What a terminal shows after this output: carriage returns, the cursor up and down, erased lines."""
    rows, row, column = [""], 0, 0
    for private, count, letter, move, plain in _TOKEN.findall(text):
        if move == "\r":
            column = 0
        elif move == "\n" or letter == "B":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif letter == "A":
            row = max(0, row - int(count or 1))
        elif letter == "K" and not private:
            rows[row] = "" if count == "2" else rows[row][:column]
        elif plain:
            old = rows[row].ljust(column)
            rows[row] = old[:column] + plain + old[column + len(plain) :]
            column += len(plain)
    return [shown.rstrip() for shown in rows]
