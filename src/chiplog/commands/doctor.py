"""Check the installation, the directory and a run.

Every problem comes with what to do about it.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import stat
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chiplog.commands.shared.seq_ranges import seq_ranges
from chiplog.core import display
from chiplog.core.display import Screen, paint, wrap
from chiplog.core.files import reading
from chiplog.core.messages import clean
from chiplog.core.paths import access_of
from chiplog.sinks.shared.lease import Holder
from chiplog.store import layout
from chiplog.store.contents.contents import Bounds, Contents
from chiplog.store.journal import file_systems, lines
from chiplog.store.journal.cursors import cursors
from chiplog.store.layout import Segment
from chiplog.store.runs import find, liveness, state
from chiplog.store.runs.problems import problems
from chiplog.store.runs.state import AttemptState
from chiplog.version import VERSION

if TYPE_CHECKING:
    from chiplog.store.parts.part import Part

EXAMPLE = "chiplog doctor latest"

LITTLE = 1 << 30  # bytes of free space that will soon run out
MOST_SINKS = 100  # named one by one
OLD = 600.0  # s after which a file that was being written is a leftover
STYLES = {"ok": "32", "note": "2", "bad": "31"}

_EXTRA = re.compile(r"""([\w.-]+).*\bextra\s*==\s*['"]([\w.-]+)['"]""")
_BEFORE = re.compile(r"""python_version\s*<\s*['"]([\d.]+)['"]""")


class Check(NamedTuple):
    """The result of one check: ok, a note, or a problem, with what to do about it."""

    level: str
    what: str
    advice: str = ""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="check this run too")


def run(args: Namespace) -> int:
    sections = {}
    if args.run is not None:
        path = find.find(args.run, args.root)
        sections[f"run {path.parent.name}/{path.name}"] = list(examine(path))
    sections[f"runs in {args.root}"] = list(_directory(args.root))
    sections["installation"] = list(_installation())
    if frameworks := list(_frameworks()):
        sections["frameworks"] = frameworks
    problems = {title: [check for check in checks if check.level == "bad"] for title, checks in sections.items()}
    count = sum(map(len, problems.values()))
    title = f"{display.counted(count, 'problem') if count else 'no problems'} found"
    print(paint(title, "1", args.screen.colour))
    for title, checks in problems.items():
        for check in checks:
            print(_text(check._replace(what=f"{title}: {check.what}"), args.screen))
    for title, checks in sections.items():
        print("\n" + paint(clean(title), "1", args.screen.colour))
        for check in checks:
            if check.level != "bad":
                print(_text(check, args.screen))
    return 1 if count else 0


def examine(path: Path) -> Iterator[Check]:
    """Check one run."""
    attempts = state.attempts(path)
    contents = Contents(path, "event", bounds=Bounds(events=0)).refresh()
    yield from _unreadable(path)
    yield from _state(path, attempts)
    yield from _damage(contents, attempts)
    yield from _missing(contents, attempts)
    yield from _parts(path)
    yield from _cursors(path, attempts)
    yield from _leftovers(path, attempts)
    yield from _permissions(path)


# -- the installation --------------------------------------------------------------------------------------------------


def _installation() -> Iterator[Check]:
    yield Check("ok", f"chiplog {VERSION}, Python {platform.python_version()}, msgspec {msgspec.__version__}")
    absent = []
    for extra, packages in _extras().items():
        versions = {name: _version(name) for name in packages}
        if None in versions.values():
            absent.append(extra)
        elif versions:
            yield Check("ok", f"{extra}: " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    if absent:
        advice = f"if you need one of them: pip install 'chiplog[{absent[0]}]', and so on"
        yield Check("note", f"extras that are not installed: {', '.join(absent)}", advice)


def _frameworks() -> Iterator[Check]:
    """Those that are installed, and how to switch chiplog on in each: the docstrings of our modules for them say so."""
    distributions = metadata.packages_distributions()
    source = Path(__file__).parents[1]
    files = {file.stem: file for file in (source / "integrations").glob("[a-z]*.py")}
    files |= {tracker: source / "compat" / tracker / "__init__.py" for tracker in ("mlflow", "tensorboard", "wandb")}
    for package, file in sorted(files.items()):
        if find_spec(package) is not None:
            about = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
            framework, _, how = " ".join(about.partition("\n\n")[0].split()).partition(": ")
            version = next(filter(None, map(_version, distributions.get(package, ()))), "")
            yield Check("ok", f"{framework} {version}".rstrip() + f": {how.rstrip('.')}")


def _extras() -> dict[str, list[str]]:
    """The extras for users and the packages of each, as the installed distribution declares them."""
    try:
        required = metadata.requires("chiplog") or []
    except metadata.PackageNotFoundError:
        return {}
    extras: dict[str, list[str]] = {}
    for text in required:
        if (limit := _BEFORE.search(text)) and sys.version_info >= tuple(map(int, limit[1].split("."))):
            continue  # it has no wheel for this Python, and its extra installs nothing
        if (match := _EXTRA.match(text)) and match[2] != "dev" and match[1] != "chiplog":
            extras.setdefault(match[2], []).append(match[1])
    return extras


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# -- the directory -----------------------------------------------------------------------------------------------------


def _directory(root: Path) -> Iterator[Check]:
    existing = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        yield Check("bad", f"{existing} cannot be written", "choose another directory with --dir or CHIPLOG_DIR")
    elif existing != root.absolute():
        yield Check("note", "the directory does not exist yet; the first run creates it")
    else:
        count = sum(1 for _ in layout.find_runs(root))
        yield Check("ok", f"it can be written, and has {display.counted(count, 'run')}")
    yield _file_system(existing)
    free = shutil.disk_usage(existing).free
    if free >= LITTLE:
        yield Check("ok", f"{display.size(free)} free")
    else:
        advice = (
            "free some space: a run whose disk is full keeps only what fits into memory; try `chiplog compact --prune`"
        )
        yield Check("bad", f"{display.size(free)} free", advice)


def _file_system(path: Path) -> Check:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Check("note", "the type of the file system is unknown; durability is 'process'")
    durability, kind = file_systems.default_durability(path.resolve(), mounts)
    if durability == "relaxed":
        words = f"file system {kind}: durability 'relaxed', records are written at most 0.5 s after log()"
        return Check("note", words, "init(durability='process') writes them before log() returns")
    words = f"file system {kind}: durability 'process', records survive the process once log() returns"
    return Check("ok", words)


# -- a run -------------------------------------------------------------------------------------------------------------


def _state(path: Path, attempts: Sequence[AttemptState]) -> Iterator[Check]:
    if not attempts:
        yield Check("bad", "the run has no journal", "nothing was written, or the journal was deleted")
    advice = f"to resume: chiplog.init(project={path.parent.name!r}, id={path.name!r}, resume='must')"
    for one in attempts:
        level = "ok" if one.state in ("running", "finished") else "note"
        reason = f": {one.finish.reason}" if one.finish is not None and one.finish.reason else ""
        workers = f", with {len(one.workers)} worker{'s' * (len(one.workers) > 1)}" if one.workers else ""
        words = f"attempt {one.attempt}, rank {one.rank}: {one.state}{reason}{workers}"
        yield Check(level, words, "" if level == "ok" else advice)
    pairs = state.two_writers(attempts, time.time_ns())
    for first, second in pairs:
        words = f"attempts {first.attempt} and {second.attempt} were written at the same time by different launches"
        yield Check(
            "bad", words, "nothing is lost: series(name, attempt=...) reads one attempt; give each launch its own id"
        )
    if len(pairs) == state.MOST_PAIRS:
        yield Check("note", f"only the first {len(pairs)} pairs of launches that wrote at the same time are listed")


def _damage(contents: Contents, attempts: Sequence[AttemptState]) -> Iterator[Check]:
    unfinished = contents.torn(state.live_streams(attempts))
    for damage in contents.damage:
        size = display.size(damage.end - damage.start)
        words = f"journal/{damage.segment}: bytes {damage.start}-{damage.end} ({size}): {damage.reason}"
        yield Check("bad", words, "these bytes are lost, everything else can be read; leave the file as it is")
    for torn in unfinished:
        words = f"journal/{torn.segment}: the last line is torn: bytes {torn.start}-{torn.end}"
        yield Check("bad", words, "the process or the machine died during the write; nothing to do")
    if not contents.damage and not unfinished:
        total = sum(stream.records for stream in contents.streams.values())
        yield Check("ok", f"{display.count(total)} records, none damaged")


def _unreadable(path: Path) -> Iterator[Check]:
    for problem in problems(path):
        yield Check("bad", f"{problem}", "it was not written by chiplog; ask who made the run, or remove it")


def _missing(contents: Contents, attempts: Sequence[AttemptState]) -> Iterator[Check]:
    advice = "the disk was full or failed, or this is the damage above; free some space, or use another --dir"
    for key, ranges in contents.missing.items():
        yield Check("bad", f"{key}: {seq_ranges(ranges, 'are missing')}", advice)
    for one in (each for attempt in attempts for each in (attempt, *attempt.workers)):
        if one.finish is not None and one.finish.missing:
            lost = display.count(one.finish.missing)
            words = f"attempt {one.attempt}, rank {one.rank}: the writer reported {lost} lost records"
            yield Check("bad", words, advice)


def _parts(path: Path) -> Iterator[Check]:
    segments = layout.segments(path)
    compacted = [segment for segment in segments if layout.has_part(path, segment)]
    if not compacted:
        return
    try:
        from chiplog.store.parts import part as parts  # without pyarrow there is nothing to compare
    except ImportError:
        yield Check("note", f"{len(compacted)} parts cannot be checked without pyarrow", "pip install 'chiplog[read]'")
        return
    wrong = 0
    for segment in compacted:
        part = parts.load(path, segment)
        reason = "cannot be read" if part is None else _mismatch(path, segment, part)
        if reason is not None:
            wrong += 1
            files = f"{quote(str(path / layout.PARTS / segment.stem))}.*"
            advice = "remove it and run `chiplog compact`, which rebuilds it from the journal"
            yield Check("bad", f"parts/{segment.stem} {reason}", f"{advice}: rm {files}")
    if not wrong:
        of = f"{display.count(len(compacted))} of {display.count(len(segments))}"
        yield Check("ok", f"{of} segments compacted, all parts match")


def _mismatch(path: Path, segment: Segment, part: Part) -> str | None:
    """How a part differs from the journal it was made from, if it does."""
    about = part.about
    file = path / layout.JOURNAL / segment.filename
    parts = reading.entries(path, layout.PARTS)
    files = [name for name, _ in parts if name.startswith(f"{segment.stem}.")]
    missing = [kind for kind in ("clock", "spans", "rows") if f"{segment.stem}.{kind}.parquet" not in files]
    if missing:
        return f"lacks its {', '.join(missing)}"
    try:
        part.verify()
    except Exception as error:
        return f"is damaged ({error})"
    if lines.located(file).suffix != ".zst" and about.covers > lines.size_of(file):
        return f"covers {display.count(about.covers)} bytes, but the journal has {display.count(lines.size_of(file))}"
    count, last_seq = 0, -1
    for end, record in lines.Scanner(file).read_at():
        if end > about.covers:
            break
        count, last_seq = count + 1, max(last_seq, record.seq)
    if (count, last_seq) != (about.records, about.last_seq):
        return f"has {display.count(about.records)} records, but the journal has {display.count(count)} there"
    return None


def _cursors(path: Path, attempts: Sequence[AttemptState]) -> Iterator[Check]:
    running = any(attempt.state == "running" for attempt in attempts)
    sinks = sorted(cursors(path), key=lambda one: not one.trouble)
    for one in sinks[:MOST_SINKS]:
        if one.trouble:
            yield Check(
                "bad", f"cursors/{one.name}.json {one.trouble}", "remove it; the sink then starts from the first record"
            )
        elif one.lag and not running:
            words = f"sink {one.name!r} has not received the last {display.size(one.lag)} of the journal"
            yield Check("bad", words, "nothing is lost; it receives them when the run resumes with this sink")
        else:
            yield Check("ok", f"sink {one.name!r}: " + (f"{display.size(one.lag)} behind" if one.lag else "up to date"))
    if len(sinks) > MOST_SINKS:
        yield Check(
            "bad", f"cursors/ has {len(sinks):,} files, which no run needs", "remove those of sinks that you do not use"
        )


def _leftovers(path: Path, attempts: Sequence[AttemptState]) -> Iterator[Check]:
    """Files that the process that made them should have removed."""
    running = {one.rank for one in attempts if one.state == "running"}
    for name, about in _entries(path)[0]:
        file = path / name
        advice = f"it is not needed: rm {quote(str(file))}"
        reserve = file.parent.name == layout.JOURNAL and re.fullmatch(r"r(\d+)\.reserve", file.name)
        packed = file.with_name(f"{file.name}.zst")
        if reserve and int(reserve[1]) not in running:
            words = f"{name} is space that was set aside for a full disk, in a run that was killed"
            yield Check(
                "note", words, f"nothing to do: the run uses it when it resumes; if it will not, rm {quote(str(file))}"
            )
        elif file.name.startswith(".") and layout.FILES not in file.parts[-2:-1] and _age(about) > OLD:
            yield Check("bad", f"{name} was left behind by an unfinished write", advice)
        elif file.suffix == ".lease" and _abandoned(file):
            yield Check(
                "note", f"{name} belongs to a process that is gone", "nothing to do: the next process takes it over"
            )
        elif file.suffix == ".jsonl" and os.path.lexists(packed):
            yield Check(
                "bad", f"{name} exists both plain and compressed", "run `chiplog compact --prune` to complete it"
            )


def _permissions(path: Path) -> Iterator[Check]:
    entries, why = _entries(path)
    access = access_of(path)
    everything = [("", path.stat()), *entries]
    wide = [
        path / name for name, about in everything if not stat.S_ISLNK(about.st_mode) and about.st_mode & 0o077 & ~access
    ]
    if why:
        yield Check("bad", f"{why}; the rest is not checked, listed or sent", "ask who made the run, or remove them")
    if wide:
        shown = ", ".join(str(file.relative_to(path.parent)) for file in wide[:3])
        more = f" and {len(wide) - 3} more" if len(wide) > 3 else ""
        yield Check("bad", f"other users can access {shown}{more}", f"chmod -R {_allowed(access)} {quote(str(path))}")
    else:
        readers = "all users" if access & 0o004 else "the group" if access & 0o040 else "only its owner"
        yield Check("ok", f"{readers} may read the run")


def _allowed(access: int) -> str:
    """The access of a run in the words of `chmod`."""
    group, others = (
        "".join(c for c, bit in zip("rwX", (4, 2, 1), strict=True) if bits & bit) for bits in (access >> 3, access)
    )
    return f"g={group},o={others}" if access else "go="


def _abandoned(lease: Path) -> bool:
    try:
        data = reading.read_bytes(lease.parents[1], f"{layout.CURSORS}/{lease.name}")
        return liveness.is_alive(msgspec.json.decode(data, type=Holder)) is False
    except (OSError, ValueError, OverflowError, RecursionError):
        return False


def _entries(path: Path) -> tuple[list[tuple[str, os.stat_result]], str]:
    """What is in a run directory, as far as it is gone through, and why not further."""
    entries = []
    try:
        for entry in reading.tree(path):
            entries.append(entry)
    except OSError as error:
        return entries, error.strerror or str(error)
    return entries, ""


def _age(about: os.stat_result) -> float:
    return time.time() - about.st_mtime


def _text(check: Check, screen: Screen) -> str:
    level = paint(f"{check.level:<4}", STYLES[check.level], screen.colour)
    texts = [clean(text) for text in (check.what, check.advice) if text]
    first, *more = [line for text in texts for line in wrap(text, None if screen.room is None else screen.room - 8)]
    return "\n".join([f"  {level}  {first}", *(" " * 8 + line for line in more)])
