"""The end of a run: datasets, pictures, text plots and the report, all in one place.

Data comes first, then pictures. Each stage is on its own: one that fails, or whose package is missing, is named and
costs nothing else. Everything is read from the run's directory, so a run that was killed ends the same way, later and
from another process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from chiplog.core import notes
from chiplog.core.errors import BadSetting
from chiplog.core.texts import words
from chiplog.store.reader import Stored
from chiplog.views.facts import Facts

STAGES = ("data", "plots", "text", "report")
EXTRAS = {"xarray": "data", "h5py": "data", "pandas": "data", "matplotlib": "plot"}

Show: TypeAlias = Callable[[str], object]


class Ending:
    """What finalising has made, and what it could not: `made` paths, `trouble` by stage, `datasets` by group."""

    def __init__(self) -> None:
        self.made: list[Path] = []
        self.pictures: dict[str, Path] = {}  # by metric
        self.trouble: dict[str, str] = {}
        self.datasets: dict[str, Any] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Let something be done whose failure is its own affair."""
        try:
            yield
        except ImportError as error:
            extra = EXTRAS.get((error.name or "").split(".")[0], "")
            hint = f": pip install 'chiplog[{extra}]'" if extra else ""
            self._note(name, f"needs the package {error.name!r}{hint}" if error.name else str(error))
        except Exception as error:
            self._note(name, words(error))

    def _note(self, name: str, trouble: str) -> None:
        self.trouble[name] = trouble
        notes.say(f"finalize: {name} could not be made ({trouble}); everything else is")


def finalize(
    stored: Stored,
    outdir: str | Path | None = None,
    *,
    stages: Sequence[str] = STAGES,
    warmup: int | float = 0,
    chains: int = 128,
    formats: Sequence[str] = ("h5",),
    pictures: Sequence[str] = ("png",),
    title: str = "",
    look: Any = None,
    show: Show | None = None,
) -> Ending:
    """Write a stored run's datasets, plots, text plots and report to a directory, by default its own `files/`.

    `show` is called with the text plots, one after the other. Doing it twice gives the same files.
    """
    if unknown := [name for name in stages if name not in STAGES]:
        raise BadSetting(f"no stage {unknown[0]!r} of finalising; there are: {', '.join(STAGES)}")
    out = Path(outdir).expanduser() if outdir is not None else stored.path / "files"
    ending = Ending()
    facts = Facts(stored)
    if "data" in stages:
        with ending.stage("data"):
            _data(stored, facts, out, ending, warmup, formats)
    if "plots" in stages:
        with ending.stage("plots"):
            _plots(stored, facts, out / "plots" / "mplot", ending, chains, pictures)
    if "text" in stages:
        with ending.stage("text plots"):
            _texts(stored, out / "plots" / "tplot", ending, look, show)
    if "report" in stages:
        with ending.stage("report"):
            _report(stored, facts, out, ending, title)
    return ending


def _data(stored: Stored, facts: Facts, out: Path, ending: Ending, warmup: int | float, formats: Sequence[str]) -> None:
    from chiplog.views import datasets

    ending.datasets = datasets.datasets(stored, warmup=warmup, facts=facts)
    for ending_of_name in formats:
        with ending.stage(f"data as {ending_of_name}"):
            ending.made += datasets.write(ending.datasets, out, ending_of_name)


def _plots(stored: Stored, facts: Facts, folder: Path, ending: Ending, chains: int, formats: Sequence[str]) -> None:
    from chiplog.views import plots

    failed = []
    for made in plots.write(stored, folder, formats, chains=chains, facts=facts):
        if made.trouble:
            failed.append(f"{made.name} ({made.trouble})")
        else:
            ending.made += made.paths
            ending.pictures[made.name] = made.paths[0]
    if failed:
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        raise RuntimeError(f"{', '.join(failed[:3])}{more}")


def _texts(stored: Stored, folder: Path, ending: Ending, look: Any, show: Show | None) -> None:
    from chiplog.views import textplots

    for path, shown in textplots.write(stored, folder, look or textplots.Look()):
        ending.made.append(path)
        if show is not None:
            show(f"{shown()}\n")


def _report(stored: Stored, facts: Facts, out: Path, ending: Ending, title: str) -> None:
    from chiplog.views.markdown import to_markdown
    from chiplog.views.page import to_html
    from chiplog.views.report import report

    files = {name: path.relative_to(out).as_posix() for name, path in ending.pictures.items() if path.suffix == ".png"}
    document = report(stored, title=title, pictures=files, facts=facts)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("report.md", to_markdown(document)), ("report.html", to_html(document))):
        write_text(out / name, text)
        ending.made.append(out / name)


def write_text(path: Path, text: str) -> None:
    """Write a file whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8", errors="replace")
    aside.replace(path)
