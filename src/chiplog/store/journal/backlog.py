"""The backlog of a journal: records that wait in memory while the disk is slow, full or remote."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from chiplog.core import messages
from chiplog.core.records import Record, Step
from chiplog.store.journal.lines import line_of

BACKLOG_BYTES = 32 << 20
SLOTS = BACKLOG_BYTES >> 10
SAMPLE = 61  # of so many rows of a few metrics, one is weighed, for its names; rows rarely repeat with this period


class Backlog:
    """Records and lines, oldest first. It is bounded: a record that does not fit is dropped and counted."""

    def __init__(self) -> None:
        self.dropped = 0
        self._items: deque[Record | bytes] = deque()
        self._slots = SLOTS
        self._closed = False
        self._counting = threading.RLock()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        return len(self._items) >= self._slots

    def append(self, item: Record | bytes) -> None:
        """Keep a record, or drop it if there is no room. `log` calls this directly if durability is `relaxed`."""
        items = self._items
        if (size := len(items)) >= self._slots:
            if item != b"" and not self._closed:
                self.drop()
            return
        items.append(item)
        if type(item) is not Step or len(item.metrics) > 10:
            if slots := _weigh(item) >> 10:
                items.extend([b""] * slots)  # a large record takes one more slot per KiB
        elif not size % SAMPLE and (slots := _weigh(item) >> 10):
            items.extend([b""] * (slots * SAMPLE))  # for those that were not weighed, too

    def close(self) -> None:
        """Ignore further records."""
        self._closed, self._slots = True, 0

    def clear(self) -> None:
        self._items.clear()

    def push_front(self, lines: Sequence[bytes]) -> None:
        """Put lines before all others, whether there is room or not."""
        self._items.extendleft(reversed(lines))

    def take(self, limit: int) -> list[bytes]:
        """Remove about `limit` bytes of lines from the front."""
        lines: list[bytes] = []
        size = 0
        while size < limit:
            try:
                line = _line(self._items.popleft())
            except IndexError:
                break
            except Exception as error:
                messages.once("not encodable", f"a record could not be written and is lost: {error!r}")
                self.drop()
                continue
            lines.append(line)
            size += len(line)
        return lines

    def drop_all_but(self, newest: int) -> None:
        """Drop and count everything except the newest bytes."""
        kept: deque[Record | bytes] = deque()
        while self._items:
            line = _line(self._items.pop())
            newest -= len(line)
            if newest >= 0:
                kept.appendleft(line)
            elif line:
                self.drop()
        self._items.extend(kept)

    def drop(self) -> None:
        """Count a record that is lost."""
        with self._counting:
            self.dropped += 1


def _line(item: Record | bytes) -> bytes:
    return item if isinstance(item, bytes) else line_of(item)


def _weigh(item: Record | bytes) -> int:
    """About how much memory a record takes."""
    if not isinstance(item, Step):
        return len(_line(item))
    try:
        return 100 * len(item.metrics) + len("".join(item.metrics))
    except TypeError:  # a name that is not a string
        return 100 * len(item.metrics) + sum(len(str(name)) for name in item.metrics)
