"""The stubs, as if nothing had been set yet."""

from __future__ import annotations

import pytest

from tests.probes.stubs import AmdSmi, Nvml


@pytest.fixture
def nvml() -> Nvml:
    made = Nvml()
    made.reset()
    return made


@pytest.fixture
def amd() -> AmdSmi:
    made = AmdSmi()
    made.reset()
    return made
