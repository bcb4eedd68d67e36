"""Captures what the process prints, by replacing the `write` of `sys.stdout` and `sys.stderr`.

The streams stay the same objects, so that output through existing references (of a logging handler, say) is captured,
too. The original `write` runs first, and what it raises reaches the caller; then the text is appended to a bounded
buffer, without a lock and without a disk. The background thread splits it into lines, twice per second.

Output that stays above `RATE` does not fit: the oldest is dropped and counted, and one line reports how much it was.
"""

from __future__ import annotations

import codecs
import io
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic_ns
from types import CodeType, FrameType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chiplog.core import messages, records
from chiplog.core.background import forks
from chiplog.core.values.redact import redact_words
from chiplog.core.values.text import Aside, cut

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LINE = 8 << 10  # characters; a longer line continues in another
MARGIN = 1 << 10  # beyond it, so that a secret at the cut is still seen whole
CHUNK = 64 << 10  # characters of one write
EACH = 64  # characters counted for each write besides its text, for the memory it takes
RATE = 64 << 10  # characters per second that are kept in the long run
BURST = 1 << 20  # characters that are kept at once
REDRAWN = 2.0  # s between two states of a line that is redrawn, such as a progress bar
UNENDED = 2 << 10  # characters per second of an unfinished line that grows
PATIENCE = 1.0  # s that the end of a run waits for a background thread with a slow disk
KEY_LINES = 200  # of a private key without an end
DEPTH = 16  # frames that wrappers may add between a `write` and its bytes
STREAMS = ("stdout", "stderr")
CONTINUED = " … [continued]"

Chunk: TypeAlias = tuple[int, int, str | bytes]  # one write: index in STREAMS, monotonic time, text


class Capture:
    """Captures output from `open` to `close`; `collect` writes it as one record."""

    def __init__(self, write: Callable[..., object], now: Callable[[], int]) -> None:
        self._write, self._now = write, now
        self._chunks: deque[Chunk] = deque()
        self._held = 0
        self._room = self._credit = BURST
        self._lost = self._lost_lines = 0
        self._refilled = time.monotonic()
        self._on = False
        self._taps: list[_Tap] = []
        self._lines = [_LineBuffer() for _ in STREAMS]
        self._turn = threading.RLock()
        self._busy = False
        forks.watch(self)

    def open(self) -> None:
        """Start to capture the current streams."""
        self._on = True
        captured: list[object] = []
        for place, name in enumerate(STREAMS):
            stream = getattr(sys, name)
            if stream is None or any(stream is one for one in captured):  # absent, or both are the same
                continue
            captured.append(stream)
            try:
                self._taps.append(_Tap(stream, self._captured(place, stream.write), partial(self._append, place)))
            except (AttributeError, TypeError) as error:
                messages.say(f"sys.{name} cannot be captured: {error}")

    def close(self) -> None:
        """Write what is left and restore the streams; a `write` that others have since wrapped only passes text on."""
        self._add_traceback()
        self._on = False
        for tap in self._taps:
            tap.close()
        self.collect(last=True)

    def collect(self, *, last: bool = False) -> None:
        """Write what has been printed since the last call; at the end, unfinished lines, too."""
        turn = self._turn
        if not turn.acquire(timeout=PATIENCE):
            return
        try:
            if self._busy:  # a signal handler has interrupted this very thread
                return
            self._busy = True
            try:
                self._write_lines(self._take_lines(last))
            finally:
                self._busy = False
        finally:
            turn.release()

    def forked(self) -> None:
        """In a forked child, output only passes through; it does not belong to a run."""
        self._on = False
        self._turn = threading.RLock()

    def _captured(self, place: int, write: Callable[[str], int]) -> Callable[[str], int]:
        """A `write` that is captured; every print calls it, so all of it is in one function."""
        append = self._chunks.append

        def captured(text: str, /) -> int:
            written = write(text)
            if self._on:
                if type(text) is str and len(text) <= CHUNK:
                    append((place, monotonic_ns(), text))
                    self._held = held = self._held + len(text) + EACH
                    if held > self._room:
                        self._make_room()
                elif type(text) is not Aside:
                    self._append(place, text)
            return written

        return captured

    def _append(self, place: int, text: str | bytes) -> None:
        """Append anything but plain short text; never raises."""
        try:
            if self._on:
                if len(text) > CHUNK:
                    text = _shortened(text)
                self._chunks.append((place, monotonic_ns(), text))
                self._held += len(text) + EACH
                self._make_room()
        except Exception:  # an unusual kind of string
            pass

    def _make_room(self) -> None:
        """Drop and count the oldest; a little more than needed, so that a flood does not get here at every write."""
        room = self._room - (self._room >> 4)
        popleft = self._chunks.popleft
        if self._held <= self._room:
            return
        try:
            while self._held > room:
                _, _, text = popleft()
                self._held -= len(text) + EACH
                self._lost += len(text)
                self._lost_lines += text.count(b"\n") if isinstance(text, bytes) else text.count("\n")
        except IndexError:  # the background thread has just taken everything
            self._held = 0

    def _add_traceback(self) -> None:
        """Add the traceback of an exception that ends the run; Python prints it only after the run has ended."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception):
            import traceback

            self._append(1, "".join(traceback.format_exception(error)))

    def _take_lines(self, last: bool) -> list[_Line]:
        offset = self._now() - monotonic_ns()
        lines: list[_Line] = []
        if self._lost:
            lines += self._report_lost()
        taken = 0
        for _ in range(len(self._chunks)):
            try:
                place, when, text = self._chunks.popleft()
            except IndexError:
                break
            self._held -= len(text) + EACH
            taken += len(text) + EACH
            lines += (_Line(place, when, line) for line in self._lines[place].feed(text, when))
        self._refill(taken)
        for place, pending in enumerate(self._lines):
            if (line := pending.rest(last)) is not None:
                lines.append(_Line(place, pending.time, line, not last))
        return [one._replace(time=one.time + offset) for one in lines]

    def _write_lines(self, lines: list[_Line]) -> None:
        if lines:
            self._write(
                records.ConsoleRecord,
                lines=[line.text for line in lines],
                times=[line.time for line in lines],
                stderr=[at for at, line in enumerate(lines) if line.place],
                open=[at for at, line in enumerate(lines) if line.open],
            )

    def _report_lost(self) -> Iterator[_Line]:
        """End the unfinished lines, whose continuation is lost, and report what was dropped."""
        now = monotonic_ns()
        lost, self._lost = self._lost, 0
        lines, self._lost_lines = self._lost_lines, 0
        for place, pending in enumerate(self._lines):
            if (line := pending.rest(last=True)) is not None:
                yield _Line(place, pending.time, line)
        yield _Line(0, now, f"… {lines:,} lines not kept" if lines else f"… {lost:,} characters not kept")

    def _refill(self, taken: int) -> None:
        now = time.monotonic()
        self._credit = min(BURST, max(0, self._credit - taken) + int(RATE * (now - self._refilled)))
        self._room, self._refilled = self._credit, now


class _Line(NamedTuple):
    place: int
    time: int
    text: str
    open: bool = False


class _Tap:
    """Replaces the `write` of a stream, and of the binary stream below it."""

    def __init__(self, stream: object, write: Callable[[str], int], append: Callable[[bytes], None]) -> None:
        self._undo: list[tuple[object, str, object, object]] = []
        if isinstance(stream, io.TextIOWrapper):
            flush = _passed_on(stream.flush)
            own = (write.__code__, flush.__code__)
            self._put(stream.buffer, "write", _captured_bytes(stream.buffer.write, append, own))
            self._put(stream, "flush", flush)
        self._put(stream, "write", write)

    def close(self) -> None:
        """Restore what is still ours."""
        for thing, name, ours, before in self._undo:
            if vars(thing).get(name) is ours:
                if before is None:
                    delattr(thing, name)
                else:
                    setattr(thing, name, before)

    def _put(self, thing: object, name: str, ours: object) -> None:
        before = vars(thing).get(name)
        setattr(thing, name, ours)
        self._undo.append((thing, name, ours, before))


def _passed_on(flush: Callable[[], None]) -> Callable[[], None]:
    """The same `flush` in a frame of ours, which marks the bytes it writes as those of the text layer."""

    def flushed() -> None:
        flush()

    return flushed


def _captured_bytes(
    write: Callable[[ReadableBuffer], int], append: Callable[[bytes], None], own: tuple[CodeType, CodeType]
) -> Callable[[ReadableBuffer], int]:
    """A `write` of bytes that is captured, unless the bytes come from the text layer and were captured as text."""

    def captured(data: ReadableBuffer, /) -> int:
        written = write(data)
        frame: FrameType | None = sys._getframe(1)
        for _ in range(DEPTH):
            if frame is None or frame.f_code in own:
                break
            frame = frame.f_back
        if frame is None or frame.f_code not in own:
            append(data if type(data) is bytes else _copied(data))
        return written

    return captured


class _LineBuffer:
    """Splits the output of one stream into lines, without secrets."""

    def __init__(self) -> None:
        self.time = 0
        self._parts: list[str] = []
        self._size = 0
        self._written = ""
        self._redrawn = False
        self._written_at = 0.0
        self._key = 0  # lines of a private key that are still hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, chunk: str | bytes, time: int) -> Iterator[str]:
        """Yield the lines that this chunk completes."""
        text = self._decoder.decode(chunk) if isinstance(chunk, bytes) else str.__str__(chunk)
        self._parts.append(text)
        self._size += len(text)
        self.time = time
        if "\n" in text:
            *ended, rest = "".join(self._parts).split("\n")
            self._redrawn = False
            self._begin(rest)
            for line in ended:
                yield from self._end(_last_state(line))
        elif "\r" in text:
            self._redrawn = True
            self._begin(_last_state("".join(self._parts)) + "\r" * text.endswith("\r"))
        if self._size > LINE + MARGIN:
            *ended, rest = self._pieces("".join(self._parts))
            self._begin(rest)
            yield from ended

    def rest(self, last: bool) -> str | None:
        """The unfinished line, if it has changed."""
        text = _last_state("".join(self._parts))
        now = time.monotonic()
        if last:
            self._begin("")
        elif text == self._written or now < self._written_at + (REDRAWN if self._redrawn else len(text) / UNENDED):
            return None
        if not text or self._key:
            return None
        self._written, self._written_at = text, now
        return _kept(text)

    def _begin(self, text: str) -> None:
        self._parts, self._size = [text], len(text)
        self._written = ""

    def _end(self, line: str) -> Iterator[str]:
        if self._key:  # between the first and the last line of a private key
            self._key = 0 if "-----END" in line else self._key - 1
            return
        if "-----BEGIN" in line and "PRIVATE KEY-----" in line and "-----END" not in line:
            self._key = KEY_LINES
        yield from self._pieces(line)

    def _pieces(self, line: str) -> Iterator[str]:
        """Cut a line into pieces; secrets are redacted before it is cut."""
        while len(line) > LINE + MARGIN:
            head = redact_words(line[: LINE + MARGIN])
            yield _shortened_line(head[:LINE] + CONTINUED)
            line = head[LINE:] + line[LINE + MARGIN :]
        yield _kept(line)


def _shortened(text: str | bytes) -> str | bytes:
    mark = f" … [{len(text) - CHUNK:,} characters cut]"
    if isinstance(text, bytes):
        return text[:CHUNK] + mark.encode() + (b"\n" if text.endswith(b"\n") else b"")
    return text[:CHUNK] + mark + ("\n" if text.endswith("\n") else "")


def _copied(data: ReadableBuffer) -> bytes:
    """A copy of a buffer that its owner will reuse; no more than is kept."""
    try:
        return bytes(memoryview(data).cast("B")[:CHUNK])
    except (TypeError, ValueError):  # the stream accepted it, whatever it was
        return b""


def _last_state(line: str) -> str:
    """The last state of a line that was redrawn after carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def _kept(line: str) -> str:
    return _shortened_line(redact_words(line))


def _shortened_line(line: str) -> str:
    return cut(line, LINE + 2 * MARGIN)
