"""Libraries of GPU makers in a few lines of C, so that their real Python bindings run without a GPU."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
# What an H100 under load says.
H100 = {
    "clock": 1800, "max_clock": 2100, "temperature": 72, "temp_slowdown": 83, "power": 350_000, "power_limit": 400_000,
    "gpu_util": 98, "mem_util": 85, "dram_free": 8 << 30, "dram_total": 80 << 30, "reserved": 512 << 20, "reasons": 0,
    "energy": 5_000_000_000, "pcie_rx": 1 << 40, "pcie_tx": 1 << 39, "nvlink_rx": 1 << 30, "nvlink_tx": 1 << 29,
    "ecc": 1, "ecc_corrected": 3, "ecc_uncorrected": 0, "capability": 90, "cores": 16_896,
}  # fmt: skip


class Nvml:
    """NVML as the tests set it: loaded under the name by which the binding asks for it."""

    def __init__(self) -> None:
        self._library = load("libnvidia-ml.so.1", (HERE / "nvml.c").read_text())
        self._library.stub_set.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_double]
        self._library.stub_fail.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        self._library.stub_calls.restype = ctypes.c_long

    def reset(self, gpus: int = 1, values: dict[str, float] = H100) -> None:
        self._library.stub_reset(gpus)
        for gpu in range(gpus):
            for name, value in values.items():
                self.set(gpu, name, value)

    def set(self, gpu: int, name: str, value: float) -> None:
        self._library.stub_set(gpu, name.encode(), value)

    def fail(self, gpu: int, name: str, code: int) -> None:
        self._library.stub_fail(gpu, name.encode(), code)

    def init_fails(self, code: int) -> None:
        self._library.stub_init_fails(code)

    @property
    def opened(self) -> int:
        return int(self._library.stub_opened())

    @property
    def calls(self) -> int:
        return int(self._library.stub_calls())


class AmdSmi:
    """AMD SMI: the binding wants every function of the library at import, so all are there, and most support nothing."""

    def __init__(self) -> None:
        spec = find_spec("amdsmi")
        assert spec is not None and spec.submodule_search_locations
        wrapper = Path(spec.submodule_search_locations[0]) / "amdsmi_wrapper.py"
        wanted = set(re.findall(r"_libraries\['libamd_smi.so'\]\.(\w+)", wrapper.read_text()))
        source = (HERE / "amdsmi.c").read_text()
        missing = sorted(name for name in wanted if not re.search(rf"\b{name}\(", source))
        source += "\n".join(f"int {name}(void) {{ return NOT_SUPPORTED; }}" for name in missing)
        self._library = load("libamd_smi.so", source)
        self._library.stub_set.argtypes = [ctypes.c_char_p, ctypes.c_double]

    def reset(self) -> None:
        self._library.stub_reset()

    def set(self, name: str, value: float) -> None:
        self._library.stub_set(name.encode(), value)


@cache
def load(name: str, source: str) -> ctypes.CDLL:
    """A library whose own name is `name`, so that whoever asks for that gets it; once in a process, as they ask once."""
    with tempfile.TemporaryDirectory() as folder:
        code, built = Path(folder) / "stub.c", Path(folder) / name
        code.write_text(source)
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{name}", "-o", str(built), str(code)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(built))
