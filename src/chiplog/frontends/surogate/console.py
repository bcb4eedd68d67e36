"""Surogate's console: its lines, as a layout of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

from chiplog.metrics import sol
from chiplog.sinks.layouts import NOTHING, SPIKE, TREND, Block, Cell, Cells, Column, Layout

MIB = 1 << 20
FIRST_FILES = 10  # of a data set; all of them when verbose
SECONDS_FROM = 2000  # ms


class LogVerbosity(IntEnum):
    """How much the console says; the file has everything."""

    SILENT = -2
    QUIET = -1
    DEFAULT = 0
    VERBOSE = 1


def layout(verbosity: int) -> Layout:
    """QUIET: evals. DEFAULT: steps and what is said at the start too. VERBOSE: GPUs, and all files of a data set."""
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
        blocks={} if quiet else blocks(verbose=verbosity >= LogVerbosity.VERBOSE),
        only=True,
        alerts=not quiet,
        around_evals=("\x1b[1m", "\x1b[22m"),
    )


def blocks(verbose: bool) -> dict[str, Block]:
    """The lines of events."""
    shown: dict[str, Block] = {
        "dataset": lambda data, _: dataset(data, None if verbose else FIRST_FILES),
        "gpu-model": lambda data, _: system(data) if verbose or not data.get("rank") else (),
        "sol": lambda data, _: sol.block(data),
        "info": lambda data, _: message(data),
        "section": lambda data, _: [f"{data.get('info', '')} ..."],
    }
    return {**shown, "gpu": gpu} if verbose else shown


def thousands(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """Whole tokens a second, in thousands whatever they are: `105.0`."""
    return f"{int(value) / 1000:5.1f}"


def hours(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    minutes = int(value) // 60
    return f"{minutes // 60:02d}h{minutes % 60:02d}m"


def percent(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    return f"{float(value) * 100:4.1f}"


# :: step       1 [ 12.5%] \ loss 2.3356 | norm  0.1234 | 105.0k tps |   156 ms | sol 78.2 | eta 02h15m
STEPS = (
    Column("step", ("@step",), "{:7d}", before=":: "),
    Column("", ("@share",), "[{:5.1f}%]", before=" "),
    Column("loss", ("train/loss",), "{:6.4f}", before=" {} ", mark=TREND),
    Column("", ("train/norm",), "{:6.4f}", before=" | norm {}", mark=SPIKE),
    Column("", ("train/tokens_per_second",), thousands, unit="k tps"),
    Column("", ("train/duration_ms",), "{:5.0f}", unit=" ms"),
    Column("kd", ("train/kd_loss",), "{:6.4f}"),
    Column("aux", ("train/moe_aux_loss",), "{:.4f}"),
    Column("imbal", ("train/moe_load_imbalance",), "{:.2f}"),
    Column("util", ("train/moe_expert_utilization",), "{:.2f}"),
    Column("hot", ("train/moe_max_expert_fraction",), "{:.2f}"),
    Column("ent", ("train/moe_router_entropy",), "{:.2f}"),
    Column("sol", ("train/sol",), percent),
    Column("eta", ("@eta",), hours),
    Column("", ("@phase",), "{}"),
)
EVALS = (
    Column("loss", ("loss",), "{:6.4f}", before=">> eval                      "),
    Column("gap", ("@gap",), "{:+7.4f}", 7),
    Column("", ("tokens_per_second",), thousands, unit="k tps"),
    Column("", ("duration_ms",), "{:5.0f}", unit=" ms"),
)


def dataset(data: Mapping[str, Any], most: int | None) -> Iterator[str]:
    """A split: its tokens, and those of its files."""
    if data.get("split") != "eval":
        yield "[Dataset]"
    yield f" {data.get('split')}: {amount(data.get('tokens') or 0)} tokens"
    listing = data.get("listing") or []
    for name, tokens in listing[:most]:
        yield f"   {name} : {tokens:10d}"


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


def system(data: Mapping[str, Any]) -> Iterator[str]:
    """A GPU, as it was found at the start."""
    yield f"[System {data.get('rank', 0)}]"
    yield f"  Device:  {data.get('name', 'unknown')}"
    versions = [
        f"{part} {_version(data[f'cuda_{part}'])}" for part in ("driver", "runtime") if data.get(f"cuda_{part}")
    ]
    if versions:
        yield f"  CUDA:    {', '.join(versions)}"
    memory, free = data.get("memory"), data.get("free")
    if memory is not None and free is not None:
        yield f"  Memory:  {(memory - free) // MIB} / {memory // MIB} MiB"


def gpu(data: Mapping[str, Any], step: int | float | None) -> Iterator[str]:
    """One line of telemetry; what the GPU does not say is a dash."""
    if "lost" in data:
        yield f"[G] step {step or 0:5.0f} [gpu {data.get('id', 0):2d}] | lost: {data.get('reason', '')}"
        return
    known = dict(data)
    if "dram_total" in data and "dram_free" in data:
        known["used"] = data["dram_total"] - data["dram_free"]

    def shown(name: str, width: int, scale: int = 1) -> str:
        value = known.get(name)
        return f"{'-':>{width}}" if value is None else f"{int(value) // scale:{width}d}"

    yield (
        f"[G] step {step or 0:5.0f} [gpu {data.get('id', 0):2d}] | power {shown('power', 4, 1000)} W   "
        f"| temp {shown('temperature', 3)} /{shown('temp_slowdown', 3)}°C | clock {shown('clock', 4)} MHz "
        f"| Mem Usage {shown('used', 1, MIB)} MiB "
        f"| PCI↓{shown('pcie_rx', 5, MIB)} MiB/s| PCI↑{shown('pcie_tx', 5, MIB)} MiB/s"
    )


def message(data: Mapping[str, Any]) -> Iterator[str]:
    """A text, or the end of a section and how long it took."""
    took = data.get("duration_ms")
    if took is None:
        yield from str(data.get("message", "")).splitlines() or [""]
    else:
        yield f"  done in {took} ms" if took < SECONDS_FROM else f"  done in {took // 1000} s"


def _version(number: int) -> str:
    """12080 is CUDA 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"
