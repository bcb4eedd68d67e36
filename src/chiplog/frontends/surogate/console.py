"""Surogate's console, as a layout of the console sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import TypeAlias, TypeGuard

from chiplog.core.records import Plain
from chiplog.metrics import speed_of_light
from chiplog.sinks.console.layout import NOTHING, SPIKE, TREND, Block, Cell, Cells, Layout, LayoutColumn

MIB = 1 << 20
SECONDS_FROM = 2000  # ms

Data: TypeAlias = Mapping[str, Plain]  # of an event


class LogVerbosity(IntEnum):
    """How much the console shows; the file has everything."""

    SILENT = -2
    QUIET = -1
    DEFAULT = 0
    VERBOSE = 1


def layout(verbosity: int) -> Layout:
    """QUIET: evaluations. DEFAULT: also steps and the start. VERBOSE: also GPUs and the files of datasets."""
    quiet = verbosity < LogVerbosity.DEFAULT
    return Layout(
        steps=() if quiet else STEPS,
        evals=EVALS,
        loss=("train/loss",),
        norm=("train/norm",),
        tokens=("train/step_tokens",),
        step_time=(),
        quiet=frozenset(),
        timing=frozenset(),
        rest=None,
        epoch=("train/epoch",),
        recent=1,
        warm_up=9,
        no_gap="n.a.",
        mean_gap=True,
        blocks={} if quiet else blocks(verbose=verbosity >= LogVerbosity.VERBOSE),
        only=True,
        alerts=not quiet,
        around_evals=("\x1b[1m", "\x1b[22m"),
    )


def blocks(verbose: bool) -> dict[str, Block]:
    """The lines of events, by name."""
    sizes: dict[Plain, Plain] = {}  # the memory of each GPU, by its number

    def gpu_model(data: Data, _: int | float | None) -> Iterable[str]:
        sizes[data.get("id", 0)] = data.get("memory")
        return system(data) if verbose or not data.get("rank") else ()

    shown: dict[str, Block] = {
        "dataset": lambda data, _: dataset(data, files=verbose),
        "gpu-model": gpu_model,
        "sol": lambda data, _: speed_of_light.block(data),
        "info": lambda data, _: message(data),
        "section": lambda data, _: [f"{data.get('info', '')} ..."],
    }
    if verbose:
        shown["gpu"] = lambda data, step: gpu({"dram_total": sizes.get(data.get("id", 0)), **data}, step)
    return shown


def thousands(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """Whole tokens per second, always in thousands: `105.0`."""
    return f"{int(value) / 1000:5.1f}"


def hours(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    minutes = int(value) // 60
    return f"{minutes // 60:02d}h{minutes % 60:02d}m"


def percent(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    return f"{float(value) * 100:4.1f}"


# :: step       1 [ 12.5%] \ loss 2.3356 | norm  0.1234 | 105.0k tps |   156 ms | sol 78.2 | eta 02h15m
STEPS = (
    LayoutColumn("step", ("@step",), "{:7d}", before=":: "),
    LayoutColumn("", ("@share",), "[{:5.1f}%]", before=" "),
    LayoutColumn("loss", ("train/loss",), "{:6.4f}", before=" {} ", mark=TREND),
    LayoutColumn("", ("train/norm",), "{:6.4f}", before=" | norm {}", mark=SPIKE),
    LayoutColumn("", ("train/tokens_per_second",), thousands, unit="k tps"),
    LayoutColumn("", ("train/duration_ms",), "{:5.0f}", unit=" ms"),
    LayoutColumn("kd", ("train/kd_loss",), "{:6.4f}"),
    LayoutColumn("aux", ("train/moe_aux_loss",), "{:.4f}"),
    LayoutColumn("imbal", ("train/moe_load_imbalance",), "{:.2f}"),
    LayoutColumn("util", ("train/moe_expert_utilization",), "{:.2f}"),
    LayoutColumn("hot", ("train/moe_max_expert_fraction",), "{:.2f}"),
    LayoutColumn("ent", ("train/moe_router_entropy",), "{:.2f}"),
    LayoutColumn("sol", ("train/sol",), percent),
    LayoutColumn("eta", ("@eta",), hours),
    LayoutColumn("", ("@phase",), "{}"),
)
EVALS = (
    LayoutColumn("loss", ("loss",), "{:6.4f}", before=">> eval                      "),
    LayoutColumn("gap", ("@gap",), "{:+7.4f}", 7),
    LayoutColumn("", ("tokens_per_second",), thousands, unit="k tps"),
    LayoutColumn("", ("duration_ms",), "{:5.0f}", unit=" ms"),
)


def dataset(data: Data, *, files: bool) -> Iterator[str]:
    """A split: its tokens, and with `files` those of each file."""
    if data.get("split") != "eval":
        yield "[Dataset]"
    tokens = data.get("tokens")
    yield f" {data.get('split')}: {amount(int(tokens)) if _is_finite(tokens) else '    -'} tokens"
    for name, count in (data.get("listing") or ()) if files else ():
        yield f"   {name} : {count:10d}" if count is not None else f"   {name} :          -"


def amount(tokens: int) -> str:
    """Tokens in five characters: `  40k`, ` 1.8M`, ` 350M`, ` 2.4B`."""
    if tokens < 10**6:
        return f"{tokens // 10**3:4d}k"
    for size, suffix in ((10**6, "M"), (10**9, "B")):
        if tokens < 20 * size:
            return f"{tokens / size:4.1f}{suffix}"
        if tokens < 1000 * size:
            return f"{tokens // size:4d}{suffix}"
    return f"{tokens / 10**12:4.1f}T"


def system(data: Data) -> Iterator[str]:
    """A GPU at the start."""
    yield f"[System {data.get('rank', 0)}]"
    yield f"  Device:  {data.get('name', 'unknown')}"
    versions = [
        f"{part} {_version(data[f'cuda_{part}'])}" for part in ("driver", "runtime") if data.get(f"cuda_{part}")
    ]
    if versions:
        yield f"  CUDA:    {', '.join(versions)}"
    memory, free = data.get("memory"), data.get("free")
    if _is_finite(memory) and _is_finite(free):
        yield f"  Memory:  {int(memory - free) // MIB} / {int(memory) // MIB} MiB"


def gpu(data: Data, step: int | float | None) -> Iterator[str]:
    """One line of telemetry, with dashes for missing values; free memory if the size of the memory is unknown."""
    if "lost" in data:
        yield f"[G] step {step or 0:5.0f} [gpu {data.get('id', 0)!s:>2}] | lost: {data.get('reason', '')}"
        return
    numbers = {name: value for name, value in data.items() if _is_finite(value)}
    memory, total, free = "Mem Usage", numbers.get("dram_total"), numbers.get("dram_free")
    if total and free is not None:
        numbers["memory"] = total - free
    elif free is not None:
        memory, numbers["memory"] = "Mem Free", free

    def shown(name: str, width: int, scale: int = 1) -> str:
        return f"{int(numbers[name]) // scale:{width}d}" if name in numbers else f"{'-':>{width}}"

    yield (
        f"[G] step {step or 0:5.0f} [gpu {data.get('id', 0)!s:>2}] | power {shown('power', 4, 1000)} W   "
        f"| temp {shown('temperature', 3)} /{shown('temp_slowdown', 3)}°C | clock {shown('clock', 4)} MHz "
        f"| {memory} {shown('memory', 1, MIB)} MiB "
        f"| PCI↓{shown('pcie_rx', 5, MIB)} MiB/s| PCI↑{shown('pcie_tx', 5, MIB)} MiB/s"
    )


def message(data: Data) -> Iterator[str]:
    """A text, or the duration of a section that has ended."""
    took = data.get("duration_ms")
    if took is None:
        yield from str(data.get("message", "")).splitlines() or [""]
    else:
        yield f"  done in {took} ms" if took < SECONDS_FROM else f"  done in {took // 1000} s"


def _version(number: Plain) -> str:
    """A CUDA version: 12080 and 12.8 are both 12.8."""
    if not _is_finite(number) or number < 1000:
        return str(number)
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def _is_finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and value - value == 0
