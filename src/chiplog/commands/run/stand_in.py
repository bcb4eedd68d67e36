"""Stand-ins: packages with the name of a tracker, found first because their folder leads the PYTHONPATH."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.errors import BadSetting, ChiplogError

FOLDER = Path(__file__).parents[2] / "compat" / "stand_ins"
WAIT = 60.0  # s
HOOKS = {"tensorboard": "sitecustomize"}  # the module by which a stand-in takes its place, if it is not its own
# Prints where a package would come from, or that it has been imported when Python starts.
_PROBE = """
import sys, importlib.util
name = sys.argv[1]
if name in sys.modules:
    print("imported", getattr(sys.modules[name], "__file__", ""))
else:
    spec = importlib.util.find_spec(name)
    print("found", spec.origin if spec else "nothing")
"""


def activate(name: str, environ: dict[str, str]) -> None:
    """Put a stand-in first on the PYTHONPATH, which children inherit."""
    names = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and not path.name.startswith("_"))
    if name not in names:
        raise BadSetting(f"no stand-in for {name!r}; available: {', '.join(names)}")
    others = [part for part in environ.get("PYTHONPATH", "").split(":") if part and part != str(FOLDER / name)]
    environ["PYTHONPATH"] = ":".join([str(FOLDER / name), *others])


def check(name: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise if the Python of the command would import the real package, or has already."""
    python = _python(command)
    if python is None:
        return
    probe = [*python, "-c", _PROBE, HOOKS.get(name, name)]
    try:
        done = subprocess.run(probe, env=dict(environ), capture_output=True, text=True, timeout=WAIT, check=False)
    except (OSError, subprocess.SubprocessError):
        return  # the command itself will report what is wrong
    lines = done.stdout.splitlines()
    word, _, origin = lines[-1].partition(" ") if lines else ("", "", "")
    if origin and Path(origin).is_relative_to(FOLDER):
        return
    if word == "imported" and name not in HOOKS:
        raise ChiplogError(
            f"--as {name}: the real {name!r} ({origin}) is imported when {python[0]} starts, by a .pth file or a "
            f"sitecustomize; remove that, or record alongside it with chiplog.mirror({name!r})"
        )
    if word:
        raise ChiplogError(
            f"--as {name}: this command would import the real {name!r} ({origin}): a Python with -E or -I ignores the "
            f"PYTHONPATH, and a folder {name!r} next to the script comes first; change that, or use "
            f"chiplog.compat.{name} in the script"
        )


def _python(command: Sequence[str]) -> list[str] | None:
    """The interpreter of a command with its own options, if it is one or a script of one."""
    program = shutil.which(command[0])
    if program is None:
        return None
    if Path(program).name.startswith(("python", "pypy")):
        options = []
        for word in command[1:]:
            if not word.startswith("-") or word in ("-c", "-m", "-"):
                break
            options.append(word)
        return [program, *options]
    try:
        with Path(program).open("rb") as file:
            first = file.readline(512).decode("utf-8", "replace").strip()
    except OSError:
        return None
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words:
        return None
    if Path(words[0]).name == "env":
        words = words[1:]
    return words if words and Path(words[0]).name.startswith("python") else None
