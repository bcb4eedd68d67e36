"""The wheel that users install, built once per session, in environments that hold nothing else of this repository."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.first_hour.environment import Environment

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sysconfig.get_paths()["purelib"])
READ = ("msgspec", "numpy", "pyarrow")  # what `pip install 'chiplog[read]'` brings


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel and of the two environments; also where several processes share the tests."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "first_hour"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "lab").exists():
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            subprocess.run(
                [*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT],
                check=True,
                timeout=100,
            )
            (wheel,) = folder.glob("*.whl")
            for name in ("read", "lab"):
                venv.create(folder / name, symlinks=True)
            target = ["--python", str(folder / "read/bin/python"), "install", "--no-deps", "--no-index", "--no-compile"]
            subprocess.run([*pip, *target, wheel], check=True, timeout=100)
            _link(folder / "read", READ)
            _reuse(folder / "read", folder / "lab")
    return folder


@pytest.fixture
def read(installed: Path, tmp_path: Path) -> Environment:
    """Where somebody ran `pip install 'chiplog[read]'`, in an empty working directory."""
    return Environment(installed / "read/bin", tmp_path)


@pytest.fixture
def lab(installed: Path, tmp_path: Path) -> Environment:
    """An environment with the packages of a lab: torch, tqdm, pandas and so on."""
    return Environment(installed / "lab/bin", tmp_path)


def _site(environment: Path) -> Path:
    (site,) = environment.glob("lib/python*/site-packages")
    return site


def _link(environment: Path, names: tuple[str, ...]) -> None:
    """Links to packages that are installed here: as good as installing them, without a network."""
    for name in names:
        for path in [*INSTALLED.glob(name), *INSTALLED.glob(f"{name}.libs"), *INSTALLED.glob(f"{name}-*.dist-info")]:
            (_site(environment) / path.name).symlink_to(path)


def _reuse(environment: Path, other: Path) -> None:
    """Offer what is installed in one environment, and everything that is installed here, in another one."""
    (_site(other) / "everything.pth").write_text(f"{_site(environment)}\n{INSTALLED}\n")
    command = (environment / "bin/chiplog").read_text().replace(str(environment), str(other))
    (other / "bin/chiplog").write_text(command)
    (other / "bin/chiplog").chmod(0o755)
