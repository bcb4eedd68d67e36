"""The logger of rank 0, with warnings on stderr and the rest on stdout; and the format of numbers in its lines."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from chiplog.core.display import has_colour, paint

ROOT = "kempnerforge"
DIM, CYAN, BOLD = "2", "36", "1"
LEVELS = {"DEBUG": DIM, "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}

_ours: set[str] = set()  # loggers that `get_logger` made


def get_logger(name: str, rank_zero_only: bool = True) -> logging.Logger:
    """The logger `kempnerforge.{name}`; with `rank_zero_only` it is silent on the other ranks."""
    root = logging.getLogger(ROOT)
    if not any(isinstance(handler, _Terminal) for handler in root.handlers):
        root.setLevel(logging.DEBUG)
        root.propagate = False
        root.addHandler(_Terminal())
    logger = logging.getLogger(f"{ROOT}.{name}")
    _ours.add(logger.name)
    logger.removeFilter(_first_rank)
    if rank_zero_only:
        logger.addFilter(_first_rank)
    return logger


def format_metrics(step: int, metrics: Mapping[str, object]) -> str:
    """`[step 100] eval/loss=2.3400 | data/tokens=125k`."""
    return line(step, ((name, format_number(value)) for name, value in metrics.items()))


def line(step: int, pairs: Iterable[tuple[str, str]]) -> str:
    """A step and its values, in colour on a terminal."""
    if not _supports_color():
        return f"[step {step}] " + " | ".join([f"{name}={value}" for name, value in pairs])
    cells = [f"{paint(name, CYAN)}={paint(value, BOLD)}" for name, value in pairs]
    return f"{paint(f'[step {step}]', DIM)} {' | '.join(cells)}"


def format_number(value: object) -> str:
    """`125k` and `1.5M` for whole numbers, four decimals for others, an exponent for very small and large ones."""
    if not isinstance(value, (int, float)):
        return str(value)
    if value - value != 0:
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) >= 1000):
        return _whole(int(value))
    return f"{value:.2e}" if abs(value) < 0.01 or abs(value) >= 1e6 else f"{value:.4f}"


_format_number = format_number  # the original's name


def _whole(value: int) -> str:
    for size, suffix in ((10**9, "B"), (10**6, "M")):
        if abs(value) >= size:
            return f"{value / size:.1f}{suffix}"
    if abs(value) >= 1000:
        return f"{value // 1000}k" if value % 1000 == 0 else f"{value / 1000:.1f}k"
    return str(value)


class _Terminal(logging.Handler):
    """`[rank 0] INFO     …` on the current stdout or stderr.

    If the rest of KempnerForge is imported too, its own handler prints; then this one prints only our warnings, which
    belong on stderr.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if (record.levelno < logging.WARNING or record.name not in _ours) and _is_printed_by_another(self):
            return
        stream = sys.stderr if record.levelno >= logging.WARNING else sys.stdout
        try:
            stream.write(f"{_head(record, has_colour(stream, os.environ))} {self.format(record)}\n")
            stream.flush()
        except Exception:  # a closed or broken terminal must not stop the training
            pass


def _is_printed_by_another(handler: logging.Handler) -> bool:
    """Whether another handler of the same logger prints on this terminal."""
    return any(
        isinstance(one, logging.StreamHandler) and one is not handler and _is_terminal(one.stream)
        for one in logging.getLogger(ROOT).handlers
    )


def _is_terminal(stream: Any) -> bool:
    """Whether a stream is stdout or stderr, or was when a handler was created."""
    if stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        return True
    try:
        return stream.fileno() in (1, 2)
    except Exception:  # any object may be a stream
        return False


class _RankFilter(logging.Filter):
    """Passes the records of one rank, by the current value of `RANK`."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__()
        self.allowed_rank = rank

    def filter(self, _: logging.LogRecord) -> bool:
        return _rank() == str(self.allowed_rank)


_first_rank = _RankFilter(0)


class _RankFormatter(logging.Formatter):
    """`[rank 0] INFO     …` for a handler of your own; in colour if stdout is, unless `use_color` is set."""

    def __init__(self, use_color: bool | None = None) -> None:
        super().__init__()
        self.use_color = use_color

    def format(self, record: logging.LogRecord) -> str:
        colour = _supports_color() if self.use_color is None else self.use_color
        return f"{_head(record, colour)} {super().format(record)}"


def _head(record: logging.LogRecord, colour: bool) -> str:
    rank, level = f"[rank {_rank()}]", f"{record.levelname:<8}"
    return f"{paint(rank, DIM)} {paint(level, LEVELS.get(record.levelname, ''))}" if colour else f"{rank} {level}"


def _rank() -> str:
    return os.environ.get("RANK", "0")


def _supports_color() -> bool:
    """Whether stdout is a terminal with colour."""
    return has_colour(sys.stdout, os.environ)
