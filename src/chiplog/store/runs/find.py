"""Finds runs by what users type: the same words in every verb, in `chiplog.read` and in `chiplog.runs`.

| text | the run |
|---|---|
| `runs/tiny-lm/261115-213045-7f3a9c` | in this directory |
| `latest` | started last |
| `261115-213045-7f3a9c`, `261115-21`, `7f3a9c` | with this id, the start of it, or its last part |
| `baseline` | with this name |
| `tiny-lm`, `tiny-lm/latest` | started last in this project |
| `tiny-lm/baseline` | any of these, in this project |
| `lr-*`, `tiny-lm/*` | whose name or id matches; with a slash, project and name or id |
| `tiny-*/latest` | started last in each project that matches |
| `runs/tiny-lm`, `../other/runs` | started last in this directory |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from chiplog.core import display
from chiplog.core.errors import RunNotFound
from chiplog.core.files.folders import run_of
from chiplog.core.suggestions import did_you_mean, some
from chiplog.store import layout, manifest
from chiplog.store.manifest import Manifest
from chiplog.store.reader import Stored
from chiplog.store.runs import access

LATEST = "latest"
LISTED = 5  # runs in an error


def find(text: str | Path, root: Path) -> Path:
    """The directory of one run; the error lists the runs there are."""
    matching = _matching(text, root)
    if len(matching) > 1:
        raise RunNotFound(_several(str(text), matching))
    return matching[0].path


def select(texts: Iterable[str | Path], root: Path) -> list[Path]:
    """The directories of several runs in the order they are named; a pattern is all others that match, oldest first."""
    paths: list[Path] = []
    for text in texts:
        if is_pattern(str(text)):
            matching = sorted(_matching(text, root), key=lambda one: one.age)
            paths += [one.path for one in matching if one.path not in paths]
        else:
            paths.append(find(text, root))
    return paths


def runs(root: Path, project: str | None = None, *, cache: Path | None = None) -> list[Stored]:
    """All runs under a directory, or those of a project or of projects that match a pattern; oldest first."""
    return sorted((Stored(path, cache=cache) for path in paths(root, project)), key=lambda run: (run.created, run.id))


def paths(root: Path, project: str | None = None) -> list[Path]:
    """The directories of these runs; an unknown project is an error that lists similar ones.

    The project may be a directory of runs, too.
    """
    candidates = [_Candidate(path) for path in layout.find_runs(root)]
    if project is None:
        return [one.path for one in candidates]
    matching = [one for one in candidates if any(_alike(project, name) for name in one.projects)]
    matching = matching or _in_directory(Path(project))
    if not matching:
        raise RunNotFound(f"no project {project!r} under {root}; {_projects(project, candidates)}")
    return [one.path for one in matching]


def directory_of_runs(text: str, root: Path) -> Path | None:
    """The directory that a text names, unless it is below the one of the runs."""
    path = Path(text).absolute()
    inside = path.is_relative_to(root.absolute()) and path != root.absolute()
    return path if not inside and _in_directory(path) else None


def is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


class _Candidate:
    """A run that may be the one; its manifest is read when it is needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name

    @cached_property
    def about(self) -> Manifest:
        return manifest.load(self.path)

    @property
    def project(self) -> str:
        return self.about.project or self.path.parent.name

    @property
    def projects(self) -> tuple[str, str]:
        """The names of its project: of the directory, and as the user wrote it."""
        return self.path.parent.name, self.project

    @property
    def names(self) -> tuple[str, str]:
        return self.id, self.about.name

    @property
    def age(self) -> tuple[int, str]:
        return self.about.created, self.id

    def within(self, text: str) -> list[str]:
        """What is left of a text behind the name of the project."""
        return [text.removeprefix(f"{name}/") for name in dict.fromkeys(self.projects) if text.startswith(f"{name}/")]


def _not_readable(path: Path) -> RunNotFound:
    """Says whose permissions do not allow it, and what the owner can do."""
    words = f"{access.UnreadableRun(path, access.reason(path))}, and its permissions are private"
    return RunNotFound(
        f"{words}; the owner can share it with `chmod -R g+rX` or `o+rX`, and new runs with permissions='group'"
    )


def _check_way(path: Path) -> None:
    """Raise `RunNotFound` if a run is behind a link inside another one: that run's maker chose it, not the user."""
    through = run_of(path / layout.JOURNAL)
    if through is not None and through[0] != Path(os.path.abspath(path)):  # noqa: PTH100  follows no link
        raise RunNotFound(
            f"{path} is reached through a link inside run {through[0]}, whose maker chose where it leads; "
            f"if you mean that run, name it by its own path: {path.resolve()}"
        )


def _matching(text: str | Path, root: Path) -> list[_Candidate]:
    """The runs that a text means, never none; several if a name, a prefix or a pattern is shared."""
    path = Path(text)
    try:
        if (path / layout.JOURNAL).is_dir() or (path / layout.IDENTITY).is_file():
            _check_way(path)
            return [_Candidate(path)]
    except PermissionError:  # which Python 3.14 hides
        pass
    if path.is_dir() and not os.access(path, os.X_OK):
        raise _not_readable(path)
    wanted = str(text).strip("/")
    candidates = []
    for path, readable in layout.walk(root):
        if readable:
            candidates.append(_Candidate(path))
        elif wanted in (path.name, f"{path.parent.name}/{path.name}"):
            raise _not_readable(path)
    for words in dict.fromkeys((wanted, _below(Path(text), root))):
        if words and (matching := _meant(words, candidates)):
            return matching
    if matching := _newest(_in_directory(Path(text))):
        return matching
    raise RunNotFound(_unknown(str(text), wanted, candidates, root))


def _below(path: Path, root: Path) -> str:
    """What is left of a path behind the directory of the runs; empty if it is elsewhere."""
    return path.relative_to(root).as_posix() if path != root and path.is_relative_to(root) else ""


def _meant(wanted: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The runs of the first meaning that any run fits: of the whole text, or of what stands behind a project."""
    for meaning in _MEANINGS:
        if matching := meaning(wanted, candidates):
            return matching
    if "/" in wanted:
        inside = [(one, rest) for one in candidates for rest in one.within(wanted)]
        for rest in dict.fromkeys(rest for _, rest in inside):
            of_project = [one for one, other in inside if other == rest]
            for meaning in _MEANINGS:
                if matching := meaning(rest, of_project):
                    return matching
    return []


def _in_directory(path: Path) -> list[_Candidate]:
    """The runs in a directory that the user names, such as one completed by the shell; never those inside a run."""
    try:
        if not path.is_dir() or run_of(path.absolute()) is not None:
            return []
    except (OSError, ValueError):  # not a path at all
        return []
    return [_Candidate(one) for one in layout.find_runs(path)]


def _latest(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    return _newest(candidates) if text == LATEST else []


def _by_id(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    by_directory = [one for one in candidates if one.id == text]
    return by_directory or [one for one in candidates if one.about.id == text]  # as given


def _by_name(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    return [one for one in candidates if one.about.name == text]


def _of_project(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    return _newest([one for one in candidates if text in one.projects])


def _by_prefix(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    return [one for one in candidates if one.id.startswith(text)]


def _by_last_part(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    return [one for one in candidates if one.id.endswith(f"-{text}")]


def _by_pattern(text: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    if not is_pattern(text):
        return []
    if "/" not in text:
        named = [one for one in candidates if any(fnmatchcase(name, text) for name in one.names)]
        return named or [one for one in candidates if any(fnmatchcase(name, text) for name in one.projects)]
    pattern, _, last = text.rpartition("/")
    if last == LATEST:  # of each project that matches
        matching = [one for one in candidates if any(fnmatchcase(name, pattern) for name in one.projects)]
        folders = dict.fromkeys(one.path.parent for one in matching)
        return [one for folder in folders for one in _newest([one for one in matching if one.path.parent == folder])]
    return [
        one
        for one in candidates
        if any(fnmatchcase(f"{project}/{name}", text) for project in one.projects for name in one.names)
    ]


# What a text may mean; the first that any run fits is it.
_MEANINGS: tuple[Callable[[str, Sequence[_Candidate]], list[_Candidate]], ...] = (
    _latest, _by_id, _by_name, _of_project, _by_prefix, _by_last_part, _by_pattern,
)  # fmt: skip


def _newest(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    return [max(candidates, key=lambda one: one.age)] if candidates else []


def _alike(pattern: str, name: str) -> bool:
    return pattern == name or (is_pattern(pattern) and fnmatchcase(name, pattern))


# -- words -------------------------------------------------------------------------------------------------------------


def _unknown(text: str, wanted: str, candidates: Sequence[_Candidate], root: Path) -> str:
    """The message names the text as it was given; suggestions are for what is wanted."""
    if not root.is_dir():
        return f"no run {text!r}: there is no directory {str(root)!r}; choose another with --dir or CHIPLOG_DIR"
    if not candidates:
        return f"no run {text!r} under {root}, which has no runs; `chiplog demo` makes one, --dir chooses another"
    projects = dict.fromkeys(name for one in candidates for name in one.projects)
    names = dict.fromkeys(name for one in candidates for name in one.names if name)
    if "/" in wanted:
        names = {f"{one.project}/{name}": None for one in candidates for name in one.names if name}
    hint = did_you_mean(wanted, [*projects, LATEST, *names])
    return f"no run {text!r} under {root}; {hint}available: {_some(candidates)}"


def _several(wanted: str, matching: Sequence[_Candidate]) -> str:
    """What to type instead: if it is the name of several runs, one of their ids, and a pattern for all of them."""
    name = wanted.rpartition("/")[2]
    if not all(one.about.name == name for one in matching):
        return f"{wanted!r} matches {len(matching)} runs: {_some(matching)}; use a longer prefix or the id"
    ordered = sorted(matching, key=lambda one: one.age)
    listed = [f"{one.project}/{one.id}" + _started(one) for one in ordered[-LISTED:]]
    more = f" and {len(matching) - LISTED} more" if len(matching) > LISTED else ""
    newest = ordered[-1]
    return f"{len(matching)} runs are named {name!r}: {', '.join(listed)}{more}; use an id: {newest.id} is the newest"


def _started(one: _Candidate) -> str:
    return f" (started {display.date(one.about.created)})" if one.about.created else ""


def _projects(wanted: str, candidates: Sequence[_Candidate]) -> str:
    projects = list(dict.fromkeys(one.project for one in candidates))
    return f"{did_you_mean(wanted, projects)}available: {some(projects) or 'none'}"


def _some(candidates: Sequence[_Candidate]) -> str:
    shown = [_label(one) for one in sorted(candidates, key=lambda one: one.age)[-LISTED:]]
    more = f" and {len(candidates) - LISTED} more" if len(candidates) > LISTED else ""
    return ", ".join(shown) + more


def _label(one: _Candidate) -> str:
    name = one.about.name
    return f"{one.project}/{one.id}" + (f" ({name})" if name and name != one.id else "")
