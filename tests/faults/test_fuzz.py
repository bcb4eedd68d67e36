"""The coverage-guided fuzzer, for a while: no bytes make a reader raise."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .harness import PATIENCE, count

pytestmark = pytest.mark.timeout(PATIENCE)

TARGET = Path(__file__).with_name("fuzz_reader.py")


def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """15 s (full size: 10 minutes) of it over journals, run.json, cursors and parts, beginning with a real run."""
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    seconds = count(15, 600)
    words = [sys.executable, str(TARGET), str(tmp_path / "corpus"), f"-max_total_time={seconds}", "-seed=1"]
    limits = ["-timeout=30", "-rss_limit_mb=2048", "-max_len=16384"]
    done = subprocess.run(
        [*words, *limits], capture_output=True, text=True, check=False, timeout=seconds + 90, cwd=tmp_path
    )
    crashes = [path.name for path in tmp_path.glob("*-*") if path.name.startswith(("crash", "timeout", "oom"))]
    assert done.returncode == 0 and not crashes, done.stderr[-4000:]
    tried = re.search(r"Done (\d+) runs", done.stderr)
    print(tried and tried[0])
    assert tried and int(tried[1]) > 100  # it did run
