"""The peaks of accelerators by device name: dense peaks by dtype, memory and link bandwidth.

Never a figure with sparsity, and never a guess: a product that is not in the table has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import msgspec

from chiplog.metrics.datasheets import SHEETS

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")
_SPELLINGS = {
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
}


class Accelerator(msgspec.Struct, frozen=True):
    """One device, as frameworks count them. None: not supported, or not published."""

    name: str
    fp32: float | None = None  # peaks in TFLOP/s
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    fp4: float | None = None
    memory_bandwidth: float | None = None  # bytes/s
    link_bandwidth: float | None = None  # bytes/s to other accelerators, both directions together, as vendors state it
    source: str = ""  # the document these figures are from

    @property
    def peaks(self) -> dict[str, float]:
        """The known peaks in TFLOP/s by dtype."""
        return {dtype: value for dtype in DTYPES if (value := getattr(self, dtype)) is not None}

    def peak(self, dtype: object = "bf16") -> float | None:
        """TFLOP/s in a dtype: `bf16`, `bfloat16`, `torch.bfloat16`, `jnp.float8_e4m3fn`, ..."""
        short = dtype_name(dtype)
        return self.peaks.get(short) if short else None


def lookup(name: str, override: Accelerator | Mapping[str, float | str | None] | None = None) -> Accelerator | None:
    """The accelerator with a device's name, by the most specific entry; None if there is none, or no single best one.

    `override` overrides the table, or describes a device that is not in it: `lookup("NVIDIA X900", {"bf16": 3000.0})`.
    """
    if isinstance(override, Accelerator):
        return override
    accelerator = _find(str(name))
    if override is None:
        return accelerator
    return msgspec.structs.replace(accelerator or Accelerator(str(name)), **override)


def peak(name: str, dtype: object = "bf16") -> float | None:
    """The dense peak of a device in TFLOP/s; None if it is not known."""
    accelerator = lookup(name)
    return None if accelerator is None else accelerator.peak(dtype)


def dtype_name(dtype: object) -> str | None:
    """The table's name for a dtype of any library, such as `bf16`; None if it has none."""
    text = str(getattr(dtype, "__name__", dtype)).lower().rpartition(".")[2].strip("'<>")
    if text.startswith(("float8", "fp8", "f8", "e4m3", "e5m2")):
        return "fp8"
    if text.startswith(("float4", "fp4", "f4", "nvfp4", "mxfp4", "e2m1")):
        return "fp4"
    text = _SPELLINGS.get(text, text)
    return text if text in DTYPES else None


# Words that denote a different product, unless the entry has them too.
_VARIANTS = frozenset(("d", "laptop", "lite", "max", "mig", "mobile", "nvl", "sff", "super", "ti"))


@cache
def _entries() -> list[tuple[frozenset[str], Accelerator]]:
    """The words of every name in the table, with its accelerator."""
    entries = []
    for source, rows in SHEETS.items():
        for names, *peaks, memory, link in rows:
            alternatives = names.split(" | ")
            accelerator = Accelerator(
                alternatives[0],
                **dict(zip(DTYPES, peaks, strict=True)),
                memory_bandwidth=memory and memory * 1e9,
                link_bandwidth=link and link * 1e9,
                source=source,
            )
            entries += [(_words(name), accelerator) for name in alternatives]
    return entries


@cache
def _find(name: str) -> Accelerator | None:
    words = _words(name)
    fitting = [
        (len(key), accelerator) for key, accelerator in _entries() if key <= words and not (words - key) & _VARIANTS
    ]
    if not fitting:
        return None
    most = max(count for count, _ in fitting)
    best = {accelerator for count, accelerator in fitting if count == most}
    return best.pop() if len(best) == 1 else None


def _words(name: str) -> frozenset[str]:
    """`NVIDIA A100-SXM4-80GB` is nvidia, a100, sxm, 80gb; `RTX4090` is rtx, 4090."""
    text = re.sub(r"\b(rtx|gtx)(?=\d)", r"\1 ", name.lower())
    return frozenset(re.sub(r"^sxm\d$", "sxm", word) for word in re.split(r"[^a-z0-9]+", text) if word)
