"""Writes batches to one sink, and keeps what it rejects to send it again at the end."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from pathlib import Path

from chiplog.core import messages
from chiplog.core.errors import Rejected, RejectedByService
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord
from chiplog.core.values.redact import redact_values
from chiplog.sinks.delivery.rejections import Rejections

IDLE = 0.5  # s without a record; a sink may have its own, as `chiplog_idle`


class BatchWriter:
    """What a sink has accepted (`delivered`) and rejected, and `why` it rejected the last."""

    def __init__(self, name: str, secrets: Sequence[str] = ()) -> None:
        self.delivered = 0
        self.rejections = Rejections()
        self.why = ""
        self._name, self._secrets = name, secrets
        self._sent_again = False  # what was rejected, at the end

    def write(self, sink: Sink, batch: Sequence[AnyRecord], keys: Sequence[str], failures: int = 0) -> None:
        """Write a batch; what is rejected is left out and noted, unless the service rejects everything."""
        writer = HalvingWriter(sink, 64 << min(failures, 10))
        writer.write(batch, keys)
        self.delivered += len(batch) - len(writer.rejected)
        if writer.rejected:
            self.rejections.add(writer.rejected)
            self.why = redact_values(writer.why, self._secrets)
            words = f"sink {self._name!r} rejects a record, which is sent again at the end: {self.why}"
            messages.once(f"rejected {self._name} {id(self)}", words)

    def send_rejected(self, sink: Sink, run: Path, rank: int) -> None:
        """Send what was rejected once more, at the end; what is rejected again stays noted."""
        if self._sent_again or not self.rejections:
            return
        before, self.rejections = self.rejections, Rejections()
        try:
            for batch, keys in before.read(run, rank):
                writer = HalvingWriter(sink, None)
                writer.write(batch, keys)
                self.rejections.add(writer.rejected)
                self.why = redact_values(writer.why, self._secrets) or self.why
                self.delivered += len(batch) - len(writer.rejected)
        except BaseException:
            self.rejections = before
            raise
        self._sent_again = True

    def rejected(self, sink: Sink) -> int:
        """Records, or parts of records, that the service does not accept."""
        return self.rejections.count + int(getattr(sink, "rejected_parts", 0))


class IdleBatch:
    """When an empty batch is due: once after each batch with records."""

    def __init__(self) -> None:
        self._accepted_at = 0.0  # the last batch; 0 if it was empty

    def accepted(self, batch: Sized, now: float) -> None:
        """The sink has accepted a batch, empty or not."""
        self._accepted_at = now if batch else 0.0

    def due(self, sink: object, now: float, *, closing: bool) -> bool:
        """Whether the sink gets an empty batch now; at the end it does not wait for it."""
        if not self._accepted_at or closing:
            return bool(self._accepted_at)
        seconds = getattr(sink, "chiplog_idle", None)  # a sink of the user may have anything of that name
        return now - self._accepted_at > (seconds if isinstance(seconds, float) else IDLE)


class HalvingWriter:
    """One turn of writing. With a number of `tries`, a service that has rejected that many in a row is out of order."""

    def __init__(self, sink: Sink, tries: int | None) -> None:
        self.rejected: list[tuple[str, AnyRecord]] = []  # with the keys of their streams
        self.why = ""
        self._sink, self._tries = sink, tries
        self._accepted = False
        self._by_service = 0  # rejections in a row before anything was accepted

    def write(self, batch: Sequence[AnyRecord], keys: Sequence[str]) -> None:
        """Write a batch; raises `ConnectionError` if the service rejected all of it."""
        self._write(batch, keys)
        if self._by_service and not self._accepted and self._tries is not None:
            raise ConnectionError(self.why)

    def _write(self, batch: Sequence[AnyRecord], keys: Sequence[str]) -> None:
        before = getattr(self._sink, "answered", None)
        try:
            self._sink.write(batch)
        except Rejected as error:
            self.why = str(error)
            if isinstance(error, RejectedByService) and not self._accepted and self._tries is not None:
                self._by_service += 1
                if self._by_service >= self._tries:
                    raise ConnectionError(self.why) from None
            if len(batch) > 1:
                half = len(batch) // 2
                self._write(batch[:half], keys[:half])
                self._write(batch[half:], keys[half:])
            else:
                self.rejected += zip(keys, batch, strict=True)
        else:
            if before is None or self._sink.answered != before:  # type: ignore[attr-defined]
                self._accepted = True
