"""How a run ends: in which state, and with everything delivered or not."""

from __future__ import annotations

import msgspec


class Delivery(msgspec.Struct, frozen=True):
    """What `finish` achieved: true when every sink has everything; `missing` says what is not delivered, by sink."""

    complete: bool
    missing: dict[str, str]
    lost: int = 0  # records the disk did not take

    def __bool__(self) -> bool:
        return self.complete


def ending(error: BaseException | None) -> tuple[str, str]:
    """(state, reason) from the exception that ended a run."""
    if error is None or isinstance(error, (SystemExit, GeneratorExit)):
        return "finished", ""
    reason = f"{type(error).__name__}: {error}"
    return ("interrupted" if isinstance(error, KeyboardInterrupt) else "failed"), reason
