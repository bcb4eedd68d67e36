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


# What the original of the Surogate front end has for a device, by its exact name: tf32, bf16, fp16, fp8, fp4.
SUROGATE = [
    ("NVIDIA A100-PCIE-40GB", 156.0, 312.0, 312.0, None, None),
    ("NVIDIA A100-PCIE-80GB", 156.0, 312.0, 312.0, None, None),
    ("NVIDIA A100-SXM4-40GB", 156.0, 312.0, 312.0, None, None),
    ("NVIDIA A100-SXM4-80GB", 156.0, 312.0, 312.0, None, None),
    ("NVIDIA RTX A2000", 16.0, 31.9, 31.9, None, None),
    ("NVIDIA RTX A4000", 38.3, 76.7, 76.7, None, None),
    ("NVIDIA RTX A4500", 47.3, 94.6, 94.6, None, None),
    ("NVIDIA RTX A5000", 55.5, 111.1, 111.1, None, None),
    ("NVIDIA RTX A6000", 77.4, 154.8, 154.8, None, None),
    ("NVIDIA GeForce RTX 3090 Ti", 40.0, 80.0, 80.0, None, None),
    ("NVIDIA GeForce RTX 3090", 35.6, 71.0, 71.0, None, None),
    ("NVIDIA GeForce RTX 3080 Ti", 34.1, 68.2, 68.2, None, None),
    ("NVIDIA GeForce RTX 3080", 29.8, 59.5, 59.5, None, None),
    ("NVIDIA GeForce RTX 3070 Ti", 21.7, 43.5, 43.5, None, None),
    ("NVIDIA GeForce RTX 3070", 20.3, 40.6, 40.6, None, None),
    ("NVIDIA GeForce RTX 3060 Ti", 16.2, 32.4, 32.4, None, None),
    ("NVIDIA GeForce RTX 3060", 12.7, 25.5, 25.5, None, None),
    ("NVIDIA RTX 2000 Ada Generation", 24.0, 48.0, 48.0, 96.0, None),
    ("NVIDIA RTX 4000 Ada Generation", 53.4, 106.9, 106.9, 213.8, None),
    ("NVIDIA RTX 5000 Ada Generation", 130.5, 261.1, 261.1, 522.2, None),
    ("NVIDIA RTX 5880 Ada Generation", 138.5, 277.1, 277.1, 554.2, None),
    ("NVIDIA RTX 6000 Ada Generation", 182.1, 364.2, 364.2, 728.5, None),
    ("NVIDIA A40", 74.8, 149.7, 149.7, None, None),
    ("NVIDIA L40", 90.5, 181.0, 181.0, 362.0, None),
    ("NVIDIA L40S", 183.0, 362.0, 362.0, 733.0, None),
    ("NVIDIA L4", 60.0, 121.0, 121.0, 242.0, None),
    ("NVIDIA GeForce RTX 4090", 82.6, 165.2, 165.2, 330.3, None),
    ("NVIDIA GeForce RTX 4080 SUPER", 52.2, 104.5, 104.5, 208.9, None),
    ("NVIDIA GeForce RTX 4080", 48.7, 97.5, 97.5, 194.9, None),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", 44.1, 88.2, 88.2, 176.4, None),
    ("NVIDIA GeForce RTX 4070 Ti", 40.1, 80.2, 80.2, 160.4, None),
    ("NVIDIA GeForce RTX 4070 SUPER", 35.4, 71.0, 71.0, 141.9, None),
    ("NVIDIA GeForce RTX 4070", 29.1, 58.3, 58.3, 116.6, None),
    ("NVIDIA GeForce RTX 4060 Ti", 22.0, 44.1, 44.1, 88.3, None),
    ("NVIDIA GeForce RTX 4060", 15.1, 30.2, 30.2, 60.5, None),
    ("NVIDIA H100 PCIe", 378.0, 756.0, 756.0, 1513.0, None),
    ("NVIDIA H100 80GB HBM3", 494.7, 989.4, 989.4, 1978.9, None),
    ("NVIDIA GeForce RTX 5090", 104.8, 209.5, 209.5, 419.0, 1676.0),
    ("NVIDIA GeForce RTX 5080", 56.3, 112.6, 112.6, 225.1, 900.4),
    ("NVIDIA GeForce RTX 5070 Ti", 43.9, 87.9, 87.9, 175.8, 703.0),
    ("NVIDIA GeForce RTX 5070", 30.9, 61.7, 61.7, 123.5, 493.9),
    ("NVIDIA GeForce RTX 5060 Ti", 23.7, 47.4, 47.4, 94.8, 379.3),
    ("NVIDIA GeForce RTX 5060", 19.2, 38.3, 38.3, 76.7, 306.8),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tf32", "bf16", "fp16", "fp8", "fp4"), SUROGATE)
def test_the_peaks_that_surogate_knows(
    name: str, tf32: float, bf16: float, fp16: float, fp8: float | None, fp4: float | None
) -> None:
    """All but those it has with sparsity (H200), rounded (B200), or of another card (the next test has them)."""
    found = hardware.lookup(name)
    assert found is not None
    wanted = {"tf32": tf32, "bf16": bf16, "fp16": fp16, "fp8": fp8, "fp4": fp4}
    known = {dtype: value for dtype, value in wanted.items() if value is not None}
    assert {dtype: value for dtype, value in found.peaks.items() if dtype != "fp32"} == pytest.approx(known, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("NVIDIA H200", 1979.0, 989.4),  # with sparsity
        ("NVIDIA B200", 2200.0, 2250.0),  # rounded
        ("NVIDIA B300 SXM6 AC", 2500.0, 2250.0),  # of a GB300
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 503.8, 480.0),  # of the workstation card
        ("NVIDIA RTX A5500", 145.0, 136.4),  # 80 multiprocessors at 1.665 GHz
        ("NVIDIA RTX 4500 Ada Generation", 147.9, 158.5),  # a quarter of the 634 that the datasheet has for sparse fp8
        ("NVIDIA GB10", 59.4, None),  # nobody has published it
        ("NVIDIA GeForce RTX 4070 Laptop GPU", 40.1, None),  # depends on the laptop
    ],
)
def test_where_the_table_differs_from_surogates(name: str, theirs: float, ours: float | None) -> None:
    """On purpose, each for its reason."""
    assert hardware.peak(name, "bf16") == ours != theirs


def test_every_device_says_where_its_figures_are_from() -> None:
    """The docs have the document, with the devices it is the source of beside it."""
    lines = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    listed = {source.removeprefix("| ").removeprefix("[").partition("](")[0]: names for source, names, *_ in lines}
    for _, accelerator in hardware._entries():
        assert accelerator.name in listed[accelerator.source].split(", "), accelerator
    assert set(SHEETS) <= set(listed)
