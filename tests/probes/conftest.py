"""The stubs, built once a session."""

from __future__ import annotations

import pytest

from tests.probes.stubs import AmdSmi, Nvml


@pytest.fixture(scope="session")
def built_nvml(tmp_path_factory: pytest.TempPathFactory) -> Nvml:
    return Nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def built_amd(tmp_path_factory: pytest.TempPathFactory) -> AmdSmi:
    return AmdSmi(tmp_path_factory.mktemp("amd"))


@pytest.fixture
def nvml(built_nvml: Nvml) -> Nvml:
    built_nvml.reset()
    return built_nvml


@pytest.fixture
def amd(built_amd: AmdSmi) -> AmdSmi:
    built_amd.reset()
    return built_amd
