"""A row as one line of text: `iter=180 loss=0.078(± 0.026) lr=0.000059`, with columns that stay where they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

AGGREGATES = ("mean", "min", "max", "std", "avg")
COUNTERS = frozenset(("iter", "step", "epoch", "batch", "idx"))
# The same on every rank, so their deviation says nothing; small, so they have six decimals at least.
CONSTANTS = frozenset(
    (
        "lr", "learning_rate", "momentum", "beta1", "beta2", "weight_decay", "wd", "eps", "epsilon", "clip_grad",
        "grad_clip", "clip_norm", "max_grad_norm", "warmup_steps", "warmup_iters", "warmup",
    )
)  # fmt: skip
MEMORY = ("mem_alloc", "mem_peak_alloc", "mem_reserved", "mem_peak_reserved")
WIDTHS = {"iter": 9, "step": 9, "epoch": 7, "batch": 9, "idx": 9, "bidx": 9}  # with the name and the `=`
STD = 6  # characters of a deviation
FEWEST = 6  # decimals of a hyperparameter


def format_compact_summary(
    metrics: Mapping[str, Any],
    precision: int = 6,
    keys_to_skip: Collection[str] | None = None,
    min_widths: Mapping[str, int] | None = None,
    constant_keys: Collection[str] | None = None,
    *,
    std_width: int = STD,
    scientific: bool = False,
) -> str:
    """One line for a row, each metric once: with its deviation across ranks, without its other statistics.

    `std_width=0` leaves deviations as long as they are: `(±0.026)`. `scientific` shows a number that has no digit
    within the precision as `1.0e-07`.
    """
    names = tuple(metrics)
    if not (keys_to_skip or min_widths or constant_keys):
        tokens, whole = _usual(names, precision)
        if whole and not scientific and _FLOAT.issuperset(map(type, metrics.values())):
            return whole % tuple(metrics.values())
    else:
        tokens = _tokens(
            names,
            precision,
            frozenset(keys_to_skip or ()),
            tuple((min_widths or {}).items()),
            frozenset(constant_keys or ()),
        )
    parts = []
    for key, deviation, template, decimals, width in tokens:
        value = metrics[key]
        if type(value) is float and not scientific:
            text = template % value
        else:
            text = _token(key, value, decimals, scientific)
        if deviation is not None and (spread := _deviation(metrics[deviation], std_width)):
            text += spread
        elif width > len(text):
            text = text.ljust(width)
        parts.append(text)
    return " ".join(parts).rstrip()


def format_memory_summary(
    metrics: Mapping[str, Any],
    device: Any = None,
    prefix: str | None = None,
    *,
    total: float | None = None,
    style: str = "reserved",
    ask: Callable[[Any], float | None] | None = None,
) -> str:
    """Device memory as `alloc/reserved` in GiB, and the share of the device that was needed at most.

    `style="peak"` is `1.50/2.00GiB (cur/peak, 9% of 16.0GiB)`. `total` is the device's memory in GiB, asked of it
    by `ask` where it is not given; unknown, the share is left out.
    """
    if prefix is None:
        found = next((key for key in metrics if key.endswith(MEMORY[:2])), None)
        if found is None:
            return ""
        prefix = found[: -len("mem_peak_alloc" if found.endswith("mem_peak_alloc") else "mem_alloc")]
    alloc, peak, reserved, most = (_number(metrics.get(f"{prefix}{name}")) for name in MEMORY)
    if total is None and ask is not None:
        total = ask(device)
    if style == "peak":
        return _current_and_peak(alloc, peak, total)
    if alloc is None and peak is None:
        return ""
    needed = max((one for one in (peak, most, alloc) if one is not None), default=0.0)
    share = f" ({100 * needed / total:.0f}%)" if total else ""
    shown = alloc if alloc is not None else peak
    return f"{shown:.2f}" + (f"/{reserved:.2f}" if reserved is not None else "") + f"GiB{share}"


class Token(NamedTuple):
    """How one metric is shown."""

    key: str
    deviation: str | None  # the key of its deviation
    template: str  # for a float
    decimals: int
    width: int


_FLOAT = frozenset((float,))


@lru_cache(maxsize=256)
def _usual(names: tuple[str, ...], precision: int) -> tuple[tuple[Token, ...], str]:
    """The tokens of a row; and one template for all, where each is only a name and a number."""
    tokens = _tokens(names, precision, frozenset(), (), frozenset())
    in_order = tuple(token.key for token in tokens) == names
    plain = in_order and not any(token.deviation or token.width for token in tokens)
    return tokens, " ".join(token.template for token in tokens) if plain else ""


@lru_cache(maxsize=256)
def _tokens(
    keys: tuple[str, ...],
    precision: int,
    skipped: frozenset[str],
    widths: tuple[tuple[str, int], ...],
    constants: frozenset[str],
) -> tuple[Token, ...]:
    """What is shown of a row with these names, in which order; statistics without their metric come last."""
    known = set(keys)
    wide = {**WIDTHS, **dict(widths)}
    shown, alone = [], []
    for key in keys:
        if key in skipped or _is_memory(key):
            continue
        base, _, last = str(key).rpartition("/")
        leaf = str(key).rpartition("/")[2]
        if last in AGGREGATES and base:
            if base in known:
                continue
            alone.append(_plain(key, precision, wide.get(leaf, 0)))
            continue
        constant = leaf in CONSTANTS or key in constants or leaf in constants
        deviation = None if constant or leaf in COUNTERS or f"{key}/std" not in known else f"{key}/std"
        decimals = max(precision, FEWEST) if constant else precision
        shown.append(_plain(key, decimals, wide.get(leaf, 0))._replace(deviation=deviation))
    return (*shown, *alone)


def _plain(key: str, decimals: int, width: int) -> Token:
    name = str(key).replace("%", "%%")
    return Token(key, None, f"{name}=%.{decimals}f", decimals, width)


def _is_memory(key: str) -> bool:
    parts = str(key).split("/")
    if parts[-1] in AGGREGATES and len(parts) > 1:
        parts.pop()
    return parts[-1] in MEMORY


def _token(key: str, value: Any, decimals: int, scientific: bool) -> str:
    if isinstance(value, Mapping):
        return " ".join(_token(f"{key}.{name}", one, decimals, scientific) for name, one in value.items())
    if isinstance(value, (list, tuple, set)):
        return " ".join(_token(f"{key}[{at}]", one, decimals, scientific) for at, one in enumerate(value))
    number = _number(value)
    if number is None or isinstance(value, (bool, int)):
        return f"{key}={value}" if not _is_away(value) else f"{key}=…"
    if isinstance(number, int):
        return f"{key}={number}"
    if scientific and number and abs(number) < 0.5 * 10.0**-decimals:
        return f"{key}={number:.1e}"
    return f"{key}={number:.{decimals}f}"


def _number(value: Any) -> int | float | None:
    """The number that a value is, unless somebody would have to be waited for."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (str, bytes)) or value is None or _is_away(value):
        return None
    try:
        got = value.item()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None
    return got if isinstance(got, (int, float)) else None


def _is_away(value: Any) -> bool:
    """Whether a value is on a device: reading it would wait for everything before it."""
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") not in ("cpu", "meta") if device is not None else False


def _deviation(value: Any, width: int) -> str:
    number = _number(value)
    if number is None or number == 0:
        return ""
    return f"(±{_std(number):>{width}})" if width else f"(±{_std(number)})"


def _std(number: float) -> str:
    """Two digits: fixed from 0.01 on, scientific below."""
    if not math.isfinite(number):
        return str(float(number))
    if abs(number) >= 0.01:
        return f"{number:.{max(0, 1 - math.floor(math.log10(abs(number))))}f}"
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa}e{exponent[0].replace('+', '')}{exponent[1:].lstrip('0')}"


def _current_and_peak(alloc: float | None, peak: float | None, total: float | None) -> str:
    if alloc is None:
        return "" if peak is None else f"{peak:.2f}GiB (peak)"
    of = f", {100 * alloc / total:.0f}% of {total:.1f}GiB" if total else ""
    return f"{alloc:.2f}GiB (cur{of})" if peak is None else f"{alloc:.2f}/{peak:.2f}GiB (cur/peak{of})"
