"""The accelerator of this process; here there is none."""

from __future__ import annotations

from pathlib import Path

from chiplog.runtime.devices import accelerator


def test_a_process_without_an_accelerator_has_no_name_for_it(tmp_path: Path) -> None:
    """Nothing is imported, and nothing is written."""
    assert accelerator.name() is None and accelerator.capability() is None
    assert accelerator.torch_backend("cuda") is None and accelerator.jax_device() is None
    assert not accelerator.snapshot(tmp_path / "memory.pickle") and not (tmp_path / "memory.pickle").exists()


def test_no_gpu_is_not_asleep() -> None:
    """Only a GPU that exists can be."""
    assert not accelerator.is_asleep()
