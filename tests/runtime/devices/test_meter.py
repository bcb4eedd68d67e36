"""The meter of a run, for the machine it runs on."""

from __future__ import annotations

import torch

from chiplog.runtime.devices.meter import meter


def test_a_meter_counts_by_parameters_or_by_a_module() -> None:
    """Six operations per weight and token, unless a module's config says more."""
    module = torch.nn.Linear(10, 10, bias=False)
    rows = [
        meter(**how, peak_tflops=1e-9).measure(0, {}, 1.0, None, 1, None)
        for how in ({"params": 100}, {"model": module})
    ]
    assert rows[0] == rows[1] and rows[0] is not None and any("mfu" in name for name in rows[0])
