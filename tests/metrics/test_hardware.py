"""The table of accelerators: the most specific name wins, and what is not in it is not guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.metrics import hardware
from chiplog.metrics.datasheets import SHEETS
from chiplog.metrics.hardware import Accelerator

PAGE = Path(__file__).parents[2] / "docs" / "hardware.md"


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 NVL", 835.5),
        ("H100", 989.4),
        ("NVIDIA H200", 989.4),
        ("NVIDIA GH200 480GB", 989.4),
        ("NVIDIA B200", 2250.0),
        ("NVIDIA B300 SXM6 AC", 2250.0),
        ("NVIDIA GB200", 2500.0),
        ("NVIDIA A100-SXM4-40GB", 312.0),
        ("NVIDIA A100-PCIE-40GB", 312.0),
        ("NVIDIA A100 80GB PCIe", 312.0),
        ("NVIDIA A10", 125.0),
        ("NVIDIA A10G", 70.0),
        ("NVIDIA L40", 181.05),
        ("NVIDIA L40S", 362.05),
        ("NVIDIA L4", 121.0),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("rtx4090", 165.2),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 88.2),
        ("NVIDIA GeForce RTX 4070 Ti", 80.2),
        ("NVIDIA GeForce RTX 4070", 58.3),
        ("NVIDIA GeForce RTX 3090", 71.0),
        ("NVIDIA GeForce RTX 5090", 209.5),
        ("NVIDIA RTX A6000", 154.8),
        ("NVIDIA RTX 6000 Ada Generation", 364.2),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 438.9),
        ("AMD Instinct MI300X", 1307.4),
        ("AMD Instinct MI250X", 191.5),
        ("Intel(R) Data Center GPU Max 1550", 838.9),
        ("TPU v4", 275.0),
        ("TPU v5 lite", 197.0),
        ("TPU v5", 459.0),
        ("TPU v6 lite", 918.0),
    ],
)
def test_the_most_specific_name_wins(name: str, bf16: float) -> None:
    """A device is what its whole name says, not what a part of it says."""
    assert hardware.peak(name, "bf16") == bf16


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA X900",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 5090 D",
        "Quadro RTX 6000 with Max-Q Design",
        "AMD Instinct MI250X / MI250",
        "AMD Instinct MI308X",
        "Tesla P100-PCIE-16GB",
        "cpu",
        "",
    ],
)
def test_what_is_not_in_the_table_is_not_guessed(name: str) -> None:
    """A laptop's, a slice of a card, two products at once, and what nobody knows: no peak."""
    assert hardware.lookup(name) is None
    assert hardware.peak(name) is None


def test_a_peak_is_asked_by_the_dtype_of_any_library() -> None:
    """And one that the device or the table does not have is None."""
    import jax.numpy as jnp
    import numpy
    import torch

    h100 = hardware.lookup("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    for dtype in ("bf16", "bfloat16", "BF16", torch.bfloat16, jnp.bfloat16):
        assert h100.peak(dtype) == 989.4
    assert h100.peak(torch.float8_e4m3fn) == h100.peak("fp8") == 1978.9
    assert h100.peak(numpy.dtype("float32")) == h100.peak(numpy.float32) == 66.9
    assert h100.peak("tf32") == 494.7 and h100.peak(torch.half) == 989.4
    assert h100.peak("fp4") is None and h100.peak("int3") is None
    assert hardware.peak("Tesla T4", "bf16") is None and hardware.peak("Tesla T4", "fp16") == 65.0


def test_bandwidths_are_bytes_a_second() -> None:
    """Of the memory, and of the links to other accelerators."""
    h100 = hardware.lookup("NVIDIA H100 80GB HBM3")
    assert h100 is not None and (h100.memory_bandwidth, h100.link_bandwidth) == (3350e9, 900e9)


def test_the_user_knows_better() -> None:
    """An override goes over the table, or stands for a device that is not in it."""
    assert hardware.lookup("NVIDIA X900", {"bf16": 3000.0}) == Accelerator("NVIDIA X900", bf16=3000.0)
    capped = hardware.lookup("NVIDIA H100 PCIe", {"bf16": 600.0})
    assert capped is not None and (capped.bf16, capped.fp8) == (600.0, 1513.0)
    assert hardware.lookup("x", Accelerator("mine")) == Accelerator("mine")


def test_every_entry_finds_itself_and_no_figure_is_one_with_sparsity() -> None:
    """The table agrees with itself: half the bits, twice the rate; fp16 is never below half of fp8."""
    for key, accelerator in hardware._entries():
        assert hardware.lookup(" ".join(key)) == accelerator, key
        peaks = accelerator.peaks
        assert all(value > 0 for value in peaks.values())
        if {"tf32", "bf16"} <= peaks.keys():
            assert peaks["bf16"] == pytest.approx(2 * peaks["tf32"], rel=0.05), accelerator
        if {"fp16", "fp8"} <= peaks.keys():
            assert peaks["fp8"] == pytest.approx(2 * peaks["fp16"], rel=0.05), accelerator


# Multiprocessors, compute units, Xe cores or matrix units; what one does in a clock, in dense fp16 or bf16 with 32-bit
# accumulation; and the clock in GHz, boosted.
@pytest.mark.parametrize(
    ("name", "units", "operations", "clock"),
    [
        ("V100 SXM", 80, 1024, 1.53),
        ("V100S", 80, 1024, 1.597),
        ("T4", 40, 1024, 1.59),
        ("TITAN RTX", 72, 1024, 1.77),
        ("RTX 2080 Ti", 68, 512, 1.545),
        ("A100 SXM 80GB", 108, 2048, 1.41),
        ("A30", 56, 2048, 1.44),
        ("A40", 84, 1024, 1.74),
        ("A10", 72, 1024, 1.695),
        ("RTX A6000", 84, 1024, 1.80),
        ("RTX A5000", 64, 1024, 1.695),
        ("RTX 3090 Ti", 84, 512, 1.86),
        ("RTX 3090", 82, 512, 1.695),
        ("RTX 3080 Ti", 80, 512, 1.665),
        ("RTX 3080", 68, 512, 1.71),
        ("RTX 3070 Ti", 48, 512, 1.77),
        ("RTX 3070", 46, 512, 1.725),
        ("RTX 3060 Ti", 38, 512, 1.665),
        ("RTX 3060", 28, 512, 1.777),
        ("H100 SXM", 132, 4096, 1.83),
        ("H100 PCIe", 114, 4096, 1.62),
        ("L40", 142, 512, 2.49),
        ("L4", 58, 1024, 2.04),
        ("RTX 6000 Ada", 142, 1024, 2.505),
        ("RTX 4090", 128, 512, 2.52),
        ("RTX 4090 D", 114, 512, 2.52),
        ("RTX 4080 SUPER", 80, 512, 2.55),
        ("RTX 4080", 76, 512, 2.505),
        ("RTX 4070 Ti SUPER", 66, 512, 2.61),
        ("RTX 4070 Ti", 60, 512, 2.61),
        ("RTX 4070 SUPER", 56, 512, 2.475),
        ("RTX 4070", 46, 512, 2.475),
        ("RTX 4060 Ti", 34, 512, 2.535),
        ("RTX 4060", 24, 512, 2.46),
        ("RTX PRO 6000 Blackwell Workstation", 188, 1024, 2.617),
        ("RTX PRO 6000 Blackwell Max-Q", 188, 1024, 2.28),
        ("RTX 5090", 170, 512, 2.407),
        ("RTX 5080", 84, 512, 2.617),
        ("RTX 5070 Ti", 70, 512, 2.452),
        ("RTX 5070", 48, 512, 2.512),
        ("RTX 5060 Ti", 36, 512, 2.572),
        ("RTX 5060", 30, 512, 2.497),
        ("MI100", 120, 1024, 1.502),
        ("MI210", 104, 1024, 1.7),
        ("MI250", 104, 1024, 1.7),
        ("MI250X", 110, 1024, 1.7),
        ("MI300A", 228, 2048, 2.1),
        ("MI300X", 304, 2048, 2.1),
        ("MI325X", 304, 2048, 2.1),
        ("MI350X", 256, 4096, 2.2),
        ("MI355X", 256, 4096, 2.4),
        ("Intel(R) Data Center GPU Max 1550", 128, 4096, 1.6),
        ("Intel(R) Data Center GPU Max 1100", 56, 4096, 1.55),
        ("TPU v3", 2, 2 * 128**2, 0.94),
        ("TPU v4", 8, 2 * 128**2, 1.05),
        ("TPU v5e", 4, 2 * 128**2, 1.5),
        ("TPU v5p", 8, 2 * 128**2, 1.75),
    ],
)
def test_a_peak_is_what_the_units_can_do_in_a_second(name: str, units: int, operations: int, clock: float) -> None:
    """Units, operations a clock and clock, times each other: what is printed as a peak, within 1 %."""
    found = hardware.lookup(name)
    assert found is not None
    assert (found.fp16 or found.bf16) == pytest.approx(units * operations * clock / 1e3, rel=0.01)


def test_every_device_says_where_its_figures_are_from() -> None:
    """The docs have the document, with the devices it is the source of beside it."""
    lines = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    listed = {source.removeprefix("| ").removeprefix("[").partition("](")[0]: names for source, names, *_ in lines}
    for _, accelerator in hardware._entries():
        assert accelerator.name in listed[accelerator.source].split(", "), accelerator
    assert set(SHEETS) <= set(listed)
