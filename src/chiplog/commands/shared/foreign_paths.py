"""The paths of other trackers' files among the arguments of a verb, replaced by the runs they hold."""

from __future__ import annotations

import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.assembly import foreign_runs
from chiplog.core import messages
from chiplog.core.errors import RunNotFound
from chiplog.store.runs import find

if TYPE_CHECKING:
    from chiplog.store.foreign.protocol import ForeignRun

LIVE = ("ui", "watch", "tail")  # verbs that stay open while a source grows
EVERY = 1.0  # s between two looks at a source


@contextmanager
def resolved(args: Namespace) -> Iterator[None]:
    """Replace paths of other trackers by their runs in the cache; several directories become `args.more_roots`.

    While a verb that shows live runs is open, the cached runs follow their sources.
    """
    sources = _resolve(args)
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(sources, stop), name="chiplog foreign", daemon=True)
    if sources and args.verb in LIVE and not getattr(args, "once", False) and not getattr(args, "export", None):
        thread.start()
    named = _named(args)
    try:
        yield
    except RunNotFound as error:
        raise foreign_runs.explained(error, *named) from None
    finally:
        stop.set()
        if thread.is_alive():
            thread.join(EVERY)


def _resolve(args: Namespace) -> list[Path]:
    args.more_roots = []
    sources: list[Path] = []
    if args.dir is not None and (root := _cached(str(args.root), sources)):
        args.root = root
    if isinstance(one := getattr(args, "run", None), str):
        args.run = ",".join(_one(word, args, sources) for word in _words(one))
    for name in ("runs", "projects"):
        if isinstance(texts := getattr(args, name, None), list):
            setattr(args, name, _several(texts, name, args, sources))
    if isinstance(against := getattr(args, "against", None), str):
        args.against = _one(against, args, sources)
    return sources


def _named(args: Namespace) -> list[str]:
    """What may be the path of a run."""
    texts = [getattr(args, name, None) for name in ("run", "against")]
    lists = [getattr(args, name, None) for name in ("runs", "projects", "words")]
    words = [word for text in texts if isinstance(text, str) for word in _words(text)]
    return words + [text for several in lists if isinstance(several, list) for text in several]


def _words(text: str) -> list[str]:
    return [text] if Path(text).exists() else text.split(",")


def _one(text: str, args: Namespace, sources: list[Path]) -> str:
    """The newest run of a foreign path; any other text stays."""
    root = _cached(text, sources)
    if root is None:
        return text
    args.root = root
    runs = find.paths(root)
    if len(runs) > 1:
        messages.say(f"{text} has {len(runs):,} runs, and this is the newest; --dir {text} lets you name the others")
    return str(find.find(find.LATEST, root))


def _several(texts: list[str], name: str, args: Namespace, sources: list[Path]) -> list[str]:
    """All runs of foreign paths; where directories are meant, they become the directories of runs."""
    left: list[str] = []
    roots: list[Path] = []
    for text in texts:
        root = _cached(text, sources)
        if root is None:
            left.append(text)
        elif name == "projects" or args.verb == "ui":
            roots.append(root)
        else:
            left += [str(path) for path in find.paths(root)]
    if args.verb == "ui" and not left and args.root.is_dir():
        args.more_roots = roots  # in addition to our own
    elif roots and not left:
        args.root, args.more_roots = roots[0], roots[1:]
    else:
        args.more_roots = roots
    return left


def _cached(text: str, sources: list[Path]) -> Path | None:
    path = Path(text)
    with ProgressLine() as progress:
        root = foreign_runs.cached(path, progress.show)
    if root is not None:
        sources.append(path)
    return root


def _follow(sources: list[Path], stop: threading.Event) -> None:
    """Keep cached runs up to date until told to stop."""
    while not stop.wait(EVERY):
        for path in sources:
            try:
                foreign_runs.cached(path)
            except OSError as error:
                messages.once(f"foreign {path}", f"{path} cannot be followed: {error}")


class ProgressLine:
    """One line on a terminal that shows how far a conversion is."""

    def __init__(self) -> None:
        self._shown = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, run: ForeignRun, number: int, count: int, share: float) -> None:
        if sys.stderr.isatty():
            self._shown = True
            done = (number + min(1.0, share)) / count
            bar = "━" * round(30 * done)
            name = messages.clean(run.path.name)[:40]
            sys.stderr.write(f"\r\x1b[K{bar:<30} {done:4.0%}  {number + 1}/{count}  {name}")
            sys.stderr.flush()
