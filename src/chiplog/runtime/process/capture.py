"""What the process prints, kept with the run: an ear at the `write` of `sys.stdout` and `sys.stderr`.

The streams stay the objects they are, so that whoever holds one already (a logging handler, say) is heard too, and
everything but `write` is as it was. A write goes through first, and whatever it raises is its caller's; then the text
is put into a tail of bounded size, without a lock and without a disk. The background thread makes lines of it, twice
a second.

More than `RATE` for long does not fit: the oldest goes, is counted, and one line says how much it was.
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
from typing import Any, NamedTuple, TypeAlias

from chiplog.core import messages, records
from chiplog.core.background import forks
from chiplog.core.values.redact import redact_words
from chiplog.core.values.text import Aside, cut

LINE = 8 << 10  # characters; a longer line goes on in another
MARGIN = 1 << 10  # beyond it, in which a secret that the cut would halve is still seen whole
CHUNK = 64 << 10  # characters of one write
EACH = 64  # that a write counts beside its text: what it costs to hold it
RATE = 64 << 10  # characters a second that are kept for long
BURST = 1 << 20  # that are kept at once
REDRAWN = 2.0  # s between two states of a line that redraws itself, as progress bars do
UNENDED = 2 << 10  # characters a second of a line that is not ended and grows
PATIENCE = 1.0  # s that the end of a run waits for a background thread at a slow disk
KEY_LINES = 200  # of a private key that never ends
DEPTH = 16  # calls that others may have put between a `write` and its bytes
STREAMS = ("stdout", "stderr")
GOES_ON = " … [goes on]"

Chunk: TypeAlias = tuple[int, int, str | bytes]  # one write: place in STREAMS, time of the monotonic clock, text


class Capture:
    """Hears what is printed, from `open` to `close`; `collect` writes it down as one record."""

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
        """Begin to listen to the streams that there are now."""
        self._on = True
        heard: list[Any] = []
        for place, name in enumerate(STREAMS):
            stream = getattr(sys, name)
            if stream is None or any(stream is one for one in heard):  # none, or both in one
                continue
            heard.append(stream)
            try:
                self._taps.append(_Tap(stream, self._hear(place, stream.write), partial(self._take, place)))
            except (AttributeError, TypeError) as error:
                messages.say(f"sys.{name} cannot be captured: {error}")

    def close(self) -> None:
        """Write down what is left, and leave the streams as they were; one that others hold by now only passes on."""
        self._hear_last()
        self._on = False
        for tap in self._taps:
            tap.close()
        self.collect(last=True)

    def collect(self, *, last: bool = False) -> None:
        """Write what has been printed since the last time; at the end also the lines that are not ended."""
        turn = self._turn
        if not turn.acquire(timeout=PATIENCE):
            return
        try:
            if self._busy:  # a signal came while this very thread was at it
                return
            self._busy = True
            try:
                self._write_lines(self._take_lines(last))
            finally:
                self._busy = False
        finally:
            turn.release()

    def forked(self) -> None:
        """In a forked child what is printed passes through; it belongs to no run."""
        self._on = False
        self._turn = threading.RLock()

    def _hear(self, place: int, write: Callable[[str], int]) -> Callable[[str], int]:
        """A `write` that is heard: on the way of every print, so all of it in one call."""
        append = self._chunks.append

        def heard(text: str, /) -> int:
            written = write(text)
            if self._on:
                if type(text) is str and len(text) <= CHUNK:
                    append((place, monotonic_ns(), text))
                    self._held = held = self._held + len(text) + EACH
                    if held > self._room:
                        self._make_room()
                elif type(text) is not Aside:
                    self._take(place, text)
            return written

        return heard

    def _take(self, place: int, text: str | bytes) -> None:
        """Hear what is no plain short text; never raises."""
        try:
            if self._on:
                if len(text) > CHUNK:
                    text = _shortened(text)
                self._chunks.append((place, monotonic_ns(), text))
                self._held += len(text) + EACH
                self._make_room()
        except Exception:  # somebody else's kind of string
            pass

    def _make_room(self) -> None:
        """Let the oldest go, and count it: a little more than must, so that a flood does not come here every time."""
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
        except IndexError:  # the background thread has just taken it
            self._held = 0

    def _hear_last(self) -> None:
        """The traceback of an exception that is leaving the run, and which Python will print when the run has ended."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception):
            import traceback

            self._take(1, "".join(traceback.format_exception(error)))

    def _take_lines(self, last: bool) -> list[_Line]:
        offset = self._now() - monotonic_ns()
        found: list[_Line] = []
        if self._lost:
            found += self._say_lost()
        taken = 0
        for _ in range(len(self._chunks)):
            try:
                place, when, text = self._chunks.popleft()
            except IndexError:
                break
            self._held -= len(text) + EACH
            taken += len(text) + EACH
            found += (_Line(place, when, line) for line in self._lines[place].feed(text, when))
        self._refill(taken)
        for place, lines in enumerate(self._lines):
            if (line := lines.rest(last)) is not None:
                found.append(_Line(place, lines.time, line, not last))
        return [line._replace(time=line.time + offset) for line in found]

    def _write_lines(self, found: list[_Line]) -> None:
        if found:
            self._write(
                records.Console,
                lines=[line.text for line in found],
                times=[line.time for line in found],
                stderr=[at for at, line in enumerate(found) if line.place],
                open=[at for at, line in enumerate(found) if line.open],
            )

    def _say_lost(self) -> Iterator[_Line]:
        """What came before it is ended: nobody knows how it went on."""
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
    """Puts another `write` in the place of a stream's own, and listens to the binary one below it."""

    def __init__(self, stream: Any, write: Callable[[str], int], take: Callable[[bytes], None]) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []
        if isinstance(stream, io.TextIOWrapper):
            flush = _passed_on(stream.flush)
            own = (write.__code__, flush.__code__)
            self._put(stream.buffer, "write", _hear_bytes(stream.buffer.write, take, own))
            self._put(stream, "flush", flush)
        self._put(stream, "write", write)

    def close(self) -> None:
        """Give back what is still ours."""
        for thing, name, ours, before in self._undo:
            if vars(thing).get(name) is ours:
                if before is None:
                    delattr(thing, name)
                else:
                    setattr(thing, name, before)

    def _put(self, thing: Any, name: str, ours: Any) -> None:
        before = vars(thing).get(name)
        setattr(thing, name, ours)
        self._undo.append((thing, name, ours, before))


def _passed_on(flush: Callable[[], None]) -> Callable[[], None]:
    """The same, in a frame of ours, by which what it writes is known to be the text layer's."""

    def flushed() -> None:
        flush()

    return flushed


def _hear_bytes(
    write: Callable[[Any], int], take: Callable[[bytes], None], own: tuple[CodeType, CodeType]
) -> Callable[[Any], int]:
    """A `write` of bytes that is heard, unless they come down from the text layer and have been heard as text."""

    def heard(data: Any, /) -> int:
        written = write(data)
        frame: FrameType | None = sys._getframe(1)
        for _ in range(DEPTH):
            if frame is None or frame.f_code in own:
                break
            frame = frame.f_back
        if frame is None or frame.f_code not in own:
            take(data if type(data) is bytes else _copied(data))
        return written

    return heard


class _LineBuffer:
    """Makes lines of what one stream was given, without its secrets."""

    def __init__(self) -> None:
        self.time = 0
        self._parts: list[str] = []
        self._size = 0
        self._said = ""
        self._redrawn = False
        self._said_at = 0.0
        self._key = 0  # lines of a private key that are still hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, chunk: str | bytes, time: int) -> Iterator[str]:
        """The lines that this one ends."""
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
        """The line that is not ended yet, if it says something new."""
        text = _last_state("".join(self._parts))
        now = time.monotonic()
        if last:
            self._begin("")
        elif text == self._said or now < self._said_at + (REDRAWN if self._redrawn else len(text) / UNENDED):
            return None
        if not text or self._key:
            return None
        self._said, self._said_at = text, now
        return _kept(text)

    def _begin(self, text: str) -> None:
        self._parts, self._size = [text], len(text)
        self._said = ""

    def _end(self, line: str) -> Iterator[str]:
        if self._key:  # what stands between the first and the last line of a private key
            self._key = 0 if "-----END" in line else self._key - 1
            return
        if "-----BEGIN" in line and "PRIVATE KEY-----" in line and "-----END" not in line:
            self._key = KEY_LINES
        yield from self._pieces(line)

    def _pieces(self, line: str) -> Iterator[str]:
        """A line in as many as it takes; what would be a secret if it were whole is hidden before it is cut."""
        while len(line) > LINE + MARGIN:
            head = redact_words(line[: LINE + MARGIN])
            yield _sayable(head[:LINE] + GOES_ON)
            line = head[LINE:] + line[LINE + MARGIN :]
        yield _kept(line)


def _shortened(text: str | bytes) -> str | bytes:
    mark = f" … [{len(text) - CHUNK:,} characters cut]"
    if isinstance(text, bytes):
        return text[:CHUNK] + mark.encode() + (b"\n" if text.endswith(b"\n") else b"")
    return text[:CHUNK] + mark + ("\n" if text.endswith("\n") else "")


def _copied(data: Any) -> bytes:
    """Of a buffer that its owner will use again, no more than is kept."""
    try:
        return bytes(memoryview(data).cast("B")[:CHUNK])
    except (TypeError, ValueError):  # the stream took it, whatever it was
        return b""


def _last_state(line: str) -> str:
    """What is left of a line that went back to its beginning."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def _kept(line: str) -> str:
    return _sayable(redact_words(line))


def _sayable(line: str) -> str:
    return cut(line, LINE + 2 * MARGIN)
