"""The stream that `chiplog tail` writes to."""

from __future__ import annotations

from typing import TextIO

WIPE = "\r\x1b[K"


class Output:
    """A text stream that remembers a broken pipe, because the console sink would ignore it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False
        self.terminal = stream.isatty()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except BrokenPipeError:
            self._broken = True

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._broken = True

    def end(self, text: str) -> None:
        """Write the last line, over the progress bar if there is one."""
        self.write((WIPE if self.terminal else "") + text)
        self.flush()

    def check(self) -> None:
        """Raise if the reader is gone."""
        if self._broken:
            raise BrokenPipeError
