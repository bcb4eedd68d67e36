"""Files of `KEY=VALUE` lines, in which people keep the credentials of a project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from chiplog.core.files import reading
from chiplog.core.files.working_directory import trusted

LARGEST = 1 << 20  # bytes of such a file

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse(text: str) -> dict[str, str]:
    """The variables of a file: `export`, quotes and comments work as in a shell; nothing is expanded."""
    variables = {}
    for line in text.splitlines():
        if (match := _LINE.fullmatch(line)) is not None:
            variables[match[1]] = _value(match[2])
    return variables


def over(paths: Iterable[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with the variables of files: a later file overrides an earlier one, the environment all."""
    variables: dict[str, str] = {}
    for path in paths:
        try:
            variables |= parse(reading.read_path(path, LARGEST).decode("utf-8", "replace"))
        except OSError:
            continue  # usually there is none
    return {**variables, **environ}


def load(cwd: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, then the project's `.env`, then the user's `~/.amsc.env`."""
    project = nearest(Path(cwd)) if cwd else None
    return over([Path(environ.get("HOME", "/")) / ".amsc.env", *([project] if project else [])], environ)


def nearest(folder: Path) -> Path | None:
    """The `.env` of a project, in its folder or the nearest one above; never one in a run, whose maker may have left
    it there for the address that credentials are sent to."""
    return next((one / ".env" for one in trusted(folder) if (one / ".env").is_file()), None)


def _value(text: str) -> str:
    if (quoted := _QUOTED.match(text)) is not None:
        if quoted[1] is not None:
            return quoted[1]
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[2])
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
