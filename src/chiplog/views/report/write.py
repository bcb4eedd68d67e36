"""Writes datasets, pictures, text plots and the report of a run to one directory.

Data comes first, then pictures. The stages are independent: one that fails, or whose package is missing, is reported
and does not affect the others. Everything is read from the run directory, so it works later, in another process, and
for a run that was killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.core.files.working_directory import outside_runs
from chiplog.core.files.writing import make_place, match_run, write_text
from chiplog.core.paths import in_run
from chiplog.core.values.text import words
from chiplog.store.contents.contents import LOGGED, Contents
from chiplog.store.reader import Stored
from chiplog.views.charts import text_plot_files
from chiplog.views.charts.text_style import TextStyle
from chiplog.views.report.build import Ends, report
from chiplog.views.report.html import to_html
from chiplog.views.report.markdown import to_markdown
from chiplog.views.report.outputs import DATASETS, PICTURES, STAGES

if TYPE_CHECKING:
    import xarray as xr

EXTRAS = {"xarray": "data", "h5py": "data", "pandas": "data", "matplotlib": "plot"}

Show: TypeAlias = Callable[[str], object]


class EndFiles:
    """The result of finalizing: the paths `made`, `trouble` by stage, `datasets` by group, `seconds` per stage."""

    def __init__(self) -> None:
        self.made: list[Path] = []
        self.seconds: dict[str, float] = {}
        self.pictures: dict[str, Path] = {}  # by metric
        self.trouble: dict[str, str] = {}
        self.missing: set[str] = set()  # those of the stages in `trouble` that need a package that is not installed
        self.datasets: dict[str, xr.Dataset] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Run a stage whose failure does not affect the others."""
        began = time.perf_counter()
        try:
            yield
        except ImportError as error:
            extra = EXTRAS.get((error.name or "").split(".")[0], "")
            hint = f": pip install 'chiplog[{extra}]'" if extra else ""
            self.missing.add(name)
            self._note(name, f"needs the {error.name!r} package{hint}" if error.name else str(error))
        except Exception as error:
            self._note(name, words(error))
        finally:
            self.seconds[name] = time.perf_counter() - began

    def _note(self, name: str, trouble: str) -> None:
        self.trouble[name] = trouble
        messages.say(f"could not write {name} ({trouble}); the other stages are not affected")


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
    look: TextStyle | None = None,
    show: Show | None = None,
    events: bool = False,
    state: str = "",
    report_to: Path | None = None,
) -> EndFiles:
    """Write a stored run's datasets, plots, text plots and report to a directory, by default its own `files/`.

    The report may go to another one, `report_to`.

    `warmup` leaves the first values out of all of them: a fraction as a float, that many as an int. `show` is called
    with the text plots, one after the other. `events` also writes datasets of events. Calling this twice
    writes the same files.

    `state` is for a process that is about to end its own run: the final state for the report, which then counts the
    time up to now, and how long each stage took.
    """
    for what, names, choices in (
        ("stage", stages, STAGES),
        ("format of datasets", formats, DATASETS),
        ("format of pictures", pictures, PICTURES),
    ):
        if unknown := [name for name in names if name not in choices]:
            raise BadSetting(f"unknown {what} {unknown[0]!r} of finalize; available: {', '.join(choices)}")
    out = Path(outdir).expanduser() if outdir is not None else stored.path / "files"
    ending = EndFiles()
    contents = stored.contents(*LOGGED)
    if "data" in stages:
        with ending.stage("data"):
            _data(stored, contents, out, ending, formats, warmup, events)
    if "plots" in stages:
        with ending.stage("plots"):
            _plots(stored, contents, out / "plots" / "mplot", ending, chains, warmup, pictures)
    if "text" in stages:
        with ending.stage("text plots"):
            _texts(stored, contents, out / "plots" / "tplot", ending, warmup, look, show)
    if "report" in stages:
        with ending.stage("report"):
            _report(stored, contents, report_to or out, ending, warmup, title, state)
    if in_run(out / "report.md"):
        match_run(out)
    return ending


def _data(
    stored: Stored,
    contents: Contents,
    out: Path,
    ending: EndFiles,
    formats: Sequence[str],
    warmup: int | float,
    events: bool,
) -> None:
    from chiplog.views.export import datasets

    ending.datasets = datasets.datasets(stored, warmup=warmup, contents=contents, events=events)
    for ending_of_name in formats:
        with ending.stage(f"data as {ending_of_name}"):
            ending.made += datasets.write(ending.datasets, out, ending_of_name)


def _plots(
    stored: Stored,
    contents: Contents,
    folder: Path,
    ending: EndFiles,
    chains: int,
    warmup: int | float,
    formats: Sequence[str],
) -> None:
    with outside_runs():  # where matplotlib looks for settings
        from chiplog.views.charts import plot_files as plots

    failed = []
    for made in plots.write(stored, folder, formats, chains=chains, warmup=warmup, contents=contents):
        if made.trouble:
            failed.append(f"{made.name} ({made.trouble})")
        else:
            ending.made += made.paths
            ending.pictures[made.name] = made.paths[0]
    if failed:
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        raise RuntimeError(f"{', '.join(failed[:3])}{more}")


def _texts(
    stored: Stored,
    contents: Contents,
    folder: Path,
    ending: EndFiles,
    warmup: int | float,
    look: TextStyle | None,
    show: Show | None,
) -> None:
    for path, shown in text_plot_files.write(stored, folder, look or TextStyle(), warmup=warmup, contents=contents):
        ending.made.append(path)
        if show is not None:
            show(f"{shown()}\n")


def _report(
    stored: Stored, contents: Contents, out: Path, ending: EndFiles, warmup: int | float, title: str, state: str
) -> None:
    files = {
        name: Path(os.path.relpath(path, out)).as_posix()
        for name, path in ending.pictures.items()
        if path.suffix == ".png"
    }
    took = {name: seconds for name, seconds in ending.seconds.items() if name in ("data", "plots", "text plots")}
    ends = Ends(state, time.time_ns(), took) if state else None
    document = report(stored, title=title, pictures=files, contents=contents, ends=ends, warmup=warmup)
    make_place(out)
    for name, text in (("report.md", to_markdown(document)), ("report.html", to_html(document))):
        write_text(out / name, text)
        ending.made.append(out / name)
