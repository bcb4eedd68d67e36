"""Packages that have no wheel for this Python: what needs them is left out by name, on CI too."""

from __future__ import annotations

import sys

import pytest

NO_WHEEL_FROM = {"aim": (3, 13)}  # the first Python for which a package has none
LEFT_OUT = "left out: "


def lacks(package: str) -> bool:
    return package in NO_WHEEL_FROM and sys.version_info >= NO_WHEEL_FROM[package]


def need(package: str) -> None:
    """Leave out this test, or this module, where a package has no wheel. Elsewhere it must be installed."""
    if lacks(package):
        pytest.skip(
            f"{LEFT_OUT}{package} has no wheel for Python {sys.version_info.major}.{sys.version_info.minor}",
            allow_module_level=True,
        )
