"""The meter of a run for this machine."""

from __future__ import annotations

import pytest
import torch

from chiplog.core.errors import BadSetting
from chiplog.runtime.devices.new_meter import meter


def test_an_unknown_peak_is_reported_once_and_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """The meter works without an MFU; other ranks are quiet."""
    meter(flops_per_token=6e9, device="Abacus 3000", quiet=True)
    assert capsys.readouterr().err == ""
    meter(flops_per_token=6e9, device="Abacus 3000")
    assert "there will be no MFU: the peak of Abacus 3000 in bf16 is unknown" in capsys.readouterr().err


def test_a_known_device_needs_no_peak(capsys: pytest.CaptureFixture[str]) -> None:
    """It is in the table."""
    meter(flops_per_token=6e9, device="NVIDIA H100 80GB HBM3")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("options", [{"dtype": "bf17"}, {"log_every": 0}, {"params": "7B"}])
def test_mistakes_are_bad_settings(options: dict[str, object]) -> None:
    """The error names the call."""
    with pytest.raises(BadSetting, match=r"run\.meter: "):
        meter(**options)  # type: ignore[arg-type]


def test_an_unknown_option_lists_the_options() -> None:
    """With the one that was probably meant, and none that users cannot pass."""
    with pytest.raises(BadSetting, match="no option 'total'; did you mean 'total_steps'") as raised:
        meter(total=12)
    assert "params" in str(raised.value) and "quiet" not in str(raised.value)


def test_a_meter_counts_by_parameters_or_by_a_module() -> None:
    """Six operations per weight and token, unless a module's config says more."""
    module = torch.nn.Linear(10, 10, bias=False)
    rows = [
        meter(**how, peak_tflops=1e-9).measure(0, {}, 1.0, None, 1, None)
        for how in ({"params": 100}, {"model": module})
    ]
    assert rows[0] == rows[1] and rows[0] is not None and any("mfu" in name for name in rows[0])
