"""The page's modules are checked by TypeScript, from the types in their comments."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from chiplog.views.web.asset_bundle import ASSETS


@pytest.mark.skipif(shutil.which("tsc") is None, reason="needs Debian's package node-typescript")
def test_the_modules_are_well_typed() -> None:
    """With all strict checks; nothing is compiled, the modules are served as they are."""
    done = subprocess.run(["tsc", "-p", ASSETS / "jsconfig.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
