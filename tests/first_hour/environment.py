"""Commands and scripts as a user runs them: from an installed wheel, in a working directory of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple


class Environment(NamedTuple):
    """A virtual environment, and the directory somebody works in."""

    bin: Path
    cwd: Path

    def python(self, code: str, *arguments: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script, which is kept as `train.py`."""
        (self.cwd / "train.py").write_text(code)
        return self.run("python", "train.py", *arguments, status=status, **variables)

    def chiplog(self, *arguments: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.run("chiplog", *arguments, status=status, **variables)

    def run(self, *command: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; it must end with `status` and without a traceback."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.cwd,
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "COLUMNS": "120", **variables},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done
