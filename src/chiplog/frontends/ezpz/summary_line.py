"""A row as one line of text, in steady columns: `iter=180 loss=0.078(± 0.026) lr=0.000059`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from chiplog.frontends.ezpz import device_memory

AGGREGATES = ("mean", "min", "max", "std", "avg")
COUNTERS = frozenset(("iter", "step", "epoch", "batch", "idx"))
# Equal on all ranks, so their deviation means nothing; small, so they get at least six decimals.
CONSTANTS = frozenset(
    (
        "lr", "learning_rate", "momentum", "beta1", "beta2", "weight_decay", "wd", "eps", "epsilon", "clip_grad",
        "grad_clip", "clip_norm", "max_grad_norm", "warmup_steps", "warmup_iters", "warmup",
    )
)  # fmt: skip
WIDTHS = {"iter": 9, "step": 9, "epoch": 7, "batch": 9, "idx": 9, "bidx": 9}  # with the name and the `=`
STD = 6  # characters of a deviation
FEWEST = 6  # decimals of a hyperparameter
MOST = 16  # elements of a vector that are shown; of a longer one, and of a matrix, only the shape is


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
    """Format a row as one line, each metric once: with its deviation across ranks, without its other statistics.

    Device memory is one token at the end, `memory=0.01/0.01GiB (0%)`. `std_width=0` does not pad deviations:
    `(±0.026)`. `scientific` shows a number that the precision would round to zero as `1.0e-07`.
    """
    if any(isinstance(value, Mapping) for value in metrics.values()):
        metrics = {name: value for name, _, value in _names(metrics)}
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
        if deviation is not None and (suffix := _deviation(metrics[deviation], std_width)):
            text += suffix
        elif width > len(text):
            text = text.ljust(width)
        parts.append(text)
    if _has_memory(names):
        kept = {key: value for key, value in metrics.items() if key not in (keys_to_skip or ())}
        if memory := format_memory_summary(kept):
            parts.append(f"memory={memory}")
    return " ".join(parts).rstrip()


def format_memory_summary(
    metrics: Mapping[str, Any],
    device: object = None,
    prefix: str | None = None,
    *,
    total: float | None = None,
    style: str = "reserved",
) -> str:
    """Device memory as `alloc/reserved` in GiB, and the peak as a share of the device.

    `style="peak"` is `1.50/2.00GiB (cur/peak, 9% of 16.0GiB)`, and so is a row without `mem_reserved`. `total` is the
    size of the device in GiB, by default its own; if it is unknown, the share is left out.
    """
    if prefix is None:
        key = next((key for key in metrics if key.endswith(device_memory.METRICS[:2])), None)
        if key is None:
            return ""
        prefix = key[: -len("mem_peak_alloc" if key.endswith("mem_peak_alloc") else "mem_alloc")]
    alloc, peak, reserved, peak_reserved = (_number(metrics.get(f"{prefix}{name}")) for name in device_memory.METRICS)
    if total is None:
        total = device_memory.total(device)
    if style == "peak" or reserved is None:
        return _current_and_peak(alloc, peak, total)
    if alloc is None and peak is None:
        return ""
    most = max((one for one in (peak, peak_reserved, alloc) if one is not None), default=0.0)
    share = f" ({100 * most / total:.0f}%)" if total else ""
    return f"{alloc if alloc is not None else peak:.2f}/{reserved:.2f}GiB{share}"


def with_deviations(metrics: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics as given, each followed by its deviation if the recorded row has one."""
    shown: dict[str, Any] = {}
    for name, recorded, value in _names(metrics):
        shown[name] = value
        if (deviation := row.get(f"{recorded}/std")) is not None:
            shown.setdefault(f"{name}/std", deviation)
    return shown


def by_prefix(metrics: Mapping[str, Any], prefixes: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a row: (what goes to the console, what goes to the debug log)."""
    debug = {name: value for name, value in metrics.items() if str(name).startswith(tuple(prefixes))}
    return {name: value for name, value in metrics.items() if name not in debug}, debug


def _names(metrics: Mapping[Any, Any], shown: str = "", recorded: str = "") -> Iterator[tuple[str, str, object]]:
    """The values of a row with their names in the line, `d.a`, and in the run, `d/a`."""
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{shown}{key}.", f"{recorded}{key}/")
        else:
            yield f"{shown}{key}", f"{recorded}{key}", value


@lru_cache(maxsize=256)
def _has_memory(names: tuple[str, ...]) -> bool:
    return any(str(name).endswith(device_memory.METRICS[:2]) for name in names)


class Token(NamedTuple):
    """The format of one metric."""

    key: str
    deviation: str | None  # the key of its deviation
    template: str  # for a float
    decimals: int
    width: int


_FLOAT = frozenset((float,))


@lru_cache(maxsize=256)
def _usual(names: tuple[str, ...], precision: int) -> tuple[tuple[Token, ...], str]:
    """The tokens of a row, and one template for all of them if each is only a name and a number."""
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
    """The tokens of a row with these names, in order; statistics without their metric come last."""
    present = set(keys)
    chosen = dict(widths)
    shown, alone = [], []
    for key in keys:
        if key in skipped or is_memory_metric(key):
            continue
        base, _, last = str(key).rpartition("/")
        leaf = str(key).rpartition("/")[2].rpartition(".")[2]  # also of a mapping: `optimizer.lr`
        # A counter is padded to the same width behind its prefix.
        width = chosen.get(key, chosen.get(leaf, WIDTHS[leaf] + len(str(key)) - len(leaf) if leaf in WIDTHS else 0))
        if last in AGGREGATES and base:
            if base in present:
                continue
            alone.append(_plain(key, precision, width))
            continue
        constant = leaf in CONSTANTS or key in constants or leaf in constants
        deviation = None if constant or leaf in COUNTERS or f"{key}/std" not in present else f"{key}/std"
        decimals = max(precision, FEWEST) if constant else precision
        shown.append(_plain(key, decimals, width)._replace(deviation=deviation))
    return (*shown, *alone)


def _plain(key: str, decimals: int, width: int) -> Token:
    name = str(key).replace("%", "%%")
    return Token(key, None, f"{name}=%.{decimals}f", decimals, width)


def is_memory_metric(key: str) -> bool:
    """Whether this is one of the four names of device memory, in any group, or a statistic of one."""
    parts = str(key).split("/")
    if parts[-1] in AGGREGATES and len(parts) > 1:
        parts.pop()
    return parts[-1] in device_memory.METRICS


def _token(key: str, value: Any, decimals: int, scientific: bool) -> str:
    if isinstance(value, Mapping):
        return " ".join(_token(f"{key}.{name}", one, decimals, scientific) for name, one in value.items())
    if (shape := _shape(value)) is not None:
        if len(shape) > 1 or shape[0] > MOST or _is_on_device(value):
            return f"{key}=<{'x'.join(map(str, shape))}>"
        listed = value.tolist() if hasattr(value, "tolist") else value
        return " ".join(_token(f"{key}[{at}]", one, decimals, scientific) for at, one in enumerate(listed))
    number = _number(value)
    if number is None or isinstance(value, (bool, int)):
        return f"{key}={value}" if not _is_on_device(value) else f"{key}=…"
    if isinstance(number, int):
        return f"{key}={number}"
    if scientific and number and abs(number) < 0.5 * 10.0**-decimals:
        return f"{key}={number:.1e}"
    return f"{key}={number:.{decimals}f}"


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of an array or of nested lists; None for a single value."""
    if isinstance(value, (list, tuple, set)):
        inner = {_shape(one) for one in value}
        only = inner.pop() if len(inner) == 1 else None
        return (len(value), *(only or ()))
    shape = getattr(value, "shape", None)
    if shape is None or all(length == 1 for length in shape):
        return None
    return tuple(int(length) for length in shape)


def _number(value: Any) -> int | float | None:
    """A value as a number; None if it is not one, or if reading it would wait for a device."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (str, bytes)) or value is None or _is_on_device(value):
        return None
    try:
        item = value.item()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None
    return item if isinstance(item, (int, float)) else None


def _is_on_device(value: object) -> bool:
    """Whether a value is on a device, where reading it waits for all earlier work."""
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") not in ("cpu", "meta") if device is not None else False


def _deviation(value: object, width: int) -> str:
    """`(± 0.026)`; a deviation of 0 is shown only in columns."""
    number = _number(value)
    if number is None or (number == 0 and not width):
        return ""
    return f"(±{_std(number):>{width}})" if width else f"(±{_std(number)})"


def _std(number: float) -> str:
    """Two digits in at most six characters: fixed from 0.01 to a million, scientific below and above."""
    if not math.isfinite(number):
        return str(float(number))
    if number == 0:
        return "0.0"
    mantissa, _, power = f"{number:.1e}".partition("e")
    exponent = int(power)
    if abs(number) >= 0.01 and exponent < STD:
        return f"{float(f'{number:.1e}'):.{max(0, 1 - exponent)}f}"
    text = f"{mantissa}e{exponent}"
    return text if len(text) <= STD else f"{f'{number:.0e}'.partition('e')[0]}e{exponent}"


def _current_and_peak(alloc: float | None, peak: float | None, total: float | None) -> str:
    if alloc is None:
        return "" if peak is None else f"{peak:.2f}GiB (peak)"
    of = f", {100 * alloc / total:.0f}% of {total:.1f}GiB" if total else ""
    return f"{alloc:.2f}GiB (cur{of})" if peak is None else f"{alloc:.2f}/{peak:.2f}GiB (cur/peak{of})"
