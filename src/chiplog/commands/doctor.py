"""`chiplog doctor`: what is wrong with the installation, the directory of runs or a run, and what to do about it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import time
from argparse import Namespace
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec

from chiplog.commands.screen import Screen
from chiplog.commands.show import ranges_text
from chiplog.commands.survey import Survey, two_writers
from chiplog.core.notes import clean
from chiplog.store import disks, index, layout, lines, process
from chiplog.store.layout import Segment
from chiplog.version import VERSION
from chiplog.views import units
from chiplog.views.table import paint, wrap

LITTLE = 1 << 30  # bytes of free space that soon run out
OLD = 600.0  # s after which a file that was being written is a leftover
STYLES = {"ok": "32", "note": "2", "bad": "31"}

_EXTRA = re.compile(r"""([\w.-]+).*\bextra\s*==\s*['"]([\w.-]+)['"]""")


class Finding(NamedTuple):
    """One thing looked at: ok, worth a note, or bad; with what to do about it."""

    level: str
    what: str
    advice: str = ""


def run(args: Namespace) -> int:
    sections = {"installation": list(_installation()), f"runs in {args.root}": list(_directory(args.root))}
    if args.run is not None:
        path = index.find(args.run, args.root)
        sections[f"run {path.parent.name}/{path.name}"] = list(examine(path))
    for title, findings in sections.items():
        print(paint(clean(title), "1", args.screen.colour))
        for finding in findings:
            print(_words(finding, args.screen))
        print()
    bad = sum(finding.level == "bad" for findings in sections.values() for finding in findings)
    print(f"{units.count(bad)} problem{'s' if bad != 1 else ''} found" if bad else "all is well")
    return 1 if bad else 0


def examine(path: Path) -> Iterator[Finding]:
    """Everything about one run."""
    survey = Survey(path)
    yield from _state(survey)
    yield from _damage(survey)
    yield from _missing(survey)
    yield from _parts(survey)
    yield from _cursors(survey)
    yield from _leftovers(survey)
    yield from _permissions(path)


# -- the installation --------------------------------------------------------------------------------------------------


def _installation() -> Iterator[Finding]:
    yield Finding("ok", f"chiplog {VERSION}, Python {platform.python_version()}, msgspec {msgspec.__version__}")
    for extra, packages in _extras().items():
        versions = {name: _version(name) for name in packages}
        missing = [name for name, version in versions.items() if version is None]
        if missing:
            words = f"{extra}: {', '.join(missing)} not installed"
            yield Finding("note", words, f"if you need it: pip install 'chiplog[{extra}]'")
        elif versions:
            yield Finding("ok", f"{extra}: " + ", ".join(f"{name} {version}" for name, version in versions.items()))


def _extras() -> dict[str, list[str]]:
    """The extras for users and the packages of each, as the installed distribution declares them."""
    try:
        required = metadata.requires("chiplog") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for text in required:
        if (match := _EXTRA.match(text)) and match[2] != "dev" and match[1] != "chiplog":
            found.setdefault(match[2], []).append(match[1])
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# -- the directory -----------------------------------------------------------------------------------------------------


def _directory(root: Path) -> Iterator[Finding]:
    there = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding("bad", f"{there} cannot be written", "choose another place with --dir or CHIPLOG_DIR")
    elif there != root.absolute():
        yield Finding("note", "it is not there yet; the first run makes it")
    else:
        count = sum(1 for _ in layout.find_runs(root))
        yield Finding("ok", f"it can be written, and has {units.count(count)} run{'s' if count != 1 else ''}")
    yield _file_system(there)
    free = shutil.disk_usage(there).free
    advice = "make room: a run whose disk is full keeps only what fits into memory; `chiplog compact --prune` helps"
    yield Finding("ok" if free >= LITTLE else "bad", f"{units.size(free)} free", "" if free >= LITTLE else advice)


def _file_system(path: Path) -> Finding:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Finding("note", "the kind of file system cannot be seen here; durability is 'process'")
    durability, kind = disks.default_durability(path.resolve(), mounts)
    if durability == "relaxed":
        words = f"file system {kind}: durability 'relaxed', records are on disk at most 0.5 s after log()"
        return Finding("note", words, "init(durability='process') has them there before log() returns")
    words = f"file system {kind}: durability 'process', records outlive the process as soon as log() returns"
    return Finding("ok", words)


# -- a run -------------------------------------------------------------------------------------------------------------


def _state(survey: Survey) -> Iterator[Finding]:
    if not survey.attempts:
        yield Finding("bad", "it has no journal", "nothing was ever written here, or it was deleted")
    for one in survey.attempts:
        level = "ok" if one.state in ("running", "finished") else "note"
        project, run_id = survey.path.parent.name, survey.path.name
        again = f"go on with it: chiplog.init(project={project!r}, id={run_id!r}, resume='must')"
        reason = f": {one.finish.reason}" if one.finish is not None and one.finish.reason else ""
        words = f"attempt {one.attempt}, rank {one.rank}: {one.state}{reason}"
        yield Finding(level, words, "" if level == "ok" else again)
    for first, second in two_writers(survey.attempts, time.time_ns()):
        words = f"attempts {first.attempt} and {second.attempt} were written at the same time by different launches"
        yield Finding("bad", words, "give each launch its own id; nothing is lost: series(name, attempt=...) reads one")


def _damage(survey: Survey) -> Iterator[Finding]:
    for damage in survey.damage:
        size = units.size(damage.end - damage.start)
        words = f"journal/{damage.segment}: bytes {damage.start}-{damage.end} ({size}): {damage.reason}"
        yield Finding("bad", words, "what stood there is lost, all else is read; leave the file as it is")
    for torn in survey.torn:
        words = f"journal/{torn.segment}: the last line is torn: bytes {torn.start}-{torn.end}"
        yield Finding("bad", words, "it was being written when the process or the machine died; nothing to do")
    if not survey.damage and not survey.torn:
        total = sum(stream.records for stream in survey.streams.values())
        yield Finding("ok", f"{units.count(total)} records, none damaged")


def _missing(survey: Survey) -> Iterator[Finding]:
    advice = "the disk was full or refused them, or they are the damage above; give the next run room, or another --dir"
    for key, ranges in survey.missing.items():
        total = sum(last - first + 1 for first, last in ranges)
        yield Finding("bad", f"{key}: {units.count(total)} records are missing: seq {ranges_text(ranges)}", advice)
    for one in survey.attempts:
        if one.finish is not None and one.finish.missing:
            said = units.count(one.finish.missing)
            words = f"attempt {one.attempt}, rank {one.rank}: the writer says that {said} records were not kept"
            yield Finding("bad", words, advice)


def _parts(survey: Survey) -> Iterator[Finding]:
    made = [segment for segment in survey.segments if layout.has_part(survey.path, segment)]
    if not made:
        return
    try:
        from chiplog.store import parts  # without it there is nothing to compare
    except ImportError:
        yield Finding("note", f"{len(made)} parts cannot be looked into", "pip install 'chiplog[read]'")
        return
    wrong = 0
    for segment in made:
        part = parts.load(survey.path, segment)
        reason = "cannot be read" if part is None else _mismatch(survey.path, segment, part)
        if reason is not None:
            wrong += 1
            files = f"{quote(str(survey.path / layout.PARTS / segment.stem))}.*"
            kept = "remove it, then `chiplog compact` makes it anew from the journal"
            yield Finding("bad", f"parts/{segment.stem} {reason}", f"{kept}: rm {files}")
    if not wrong:
        of = f"{units.count(len(made))} of {units.count(len(survey.segments))}"
        yield Finding("ok", f"{of} segments compacted, all parts match")


def _mismatch(path: Path, segment: Segment, part: object) -> str | None:
    """How a part differs from the journal it was made of, if it does."""
    about = part.about  # type: ignore[attr-defined]
    file = path / layout.JOURNAL / segment.filename
    there = [part.name for part in (path / layout.PARTS).glob(f"{segment.stem}.*")]
    missing = [kind for kind in ("clock", "spans", "rows") if f"{segment.stem}.{kind}.parquet" not in there]
    if missing:
        return f"is without its {', '.join(missing)}"
    try:
        part.verify()  # type: ignore[attr-defined]
    except Exception as error:
        return f"is damaged ({error})"
    if lines.located(file).suffix != ".zst" and about.covers > file.stat().st_size:
        return f"covers {units.count(about.covers)} bytes, and the journal has {units.count(file.stat().st_size)}"
    count, last_seq = 0, -1
    for end, record in lines.Scanner(file).read_at():
        if end > about.covers:
            break
        count, last_seq = count + 1, max(last_seq, record.seq)
    if (count, last_seq) != (about.records, about.last_seq):
        return f"has {units.count(about.records)} records, and the journal {units.count(count)} there"
    return None


def _cursors(survey: Survey) -> Iterator[Finding]:
    for one in survey.cursors:
        if one.trouble:
            yield Finding("bad", f"cursors/{one.name}.json {one.trouble}", "remove it; the sink then begins anew")
        elif one.lag and not survey.running:
            words = f"sink {one.name!r} has not been given the last {units.size(one.lag)} of the journal"
            yield Finding("bad", words, "it gets them when the run goes on with this sink; the journal has them all")
        else:
            yield Finding("ok", f"sink {one.name!r}: " + (f"{units.size(one.lag)} behind" if one.lag else "up to date"))


def _leftovers(survey: Survey) -> Iterator[Finding]:
    """Files that should have gone when whoever made them ended."""
    running = {one.rank for one in survey.attempts if one.state == "running"}
    for file in sorted(survey.path.rglob("*")):
        name = str(file.relative_to(survey.path))
        reserve = file.parent.name == layout.JOURNAL and re.fullmatch(r"r(\d+)\.reserve", file.name)
        packed = file.with_name(f"{file.name}.zst")
        if reserve and int(reserve[1]) not in running:
            yield Finding(
                "bad", f"{name} was left over when the run was killed", f"it is not needed: rm {quote(str(file))}"
            )
        elif file.name.startswith(".") and layout.FILES not in file.parts[-2:-1] and _age(file) > OLD:
            yield Finding(
                "bad", f"{name} was left over by a write that never ended", f"it is not needed: rm {quote(str(file))}"
            )
        elif file.suffix == ".lease" and _abandoned(file):
            yield Finding("note", f"{name} belongs to a process that is gone", "nothing to do: the next takes it over")
        elif file.suffix == ".jsonl" and packed.exists():
            yield Finding("bad", f"{name} is there as it was and compressed", "`chiplog compact --prune` completes it")


def _permissions(path: Path) -> Iterator[Finding]:
    wide = [file for file in (path, *sorted(path.rglob("*"))) if not file.is_symlink() and _mode(file) & 0o077]
    if wide:
        shown = ", ".join(str(file.relative_to(path.parent)) for file in wide[:3])
        more = f" and {len(wide) - 3} more" if len(wide) > 3 else ""
        yield Finding("bad", f"others may look into {shown}{more}", f"chmod -R go= {quote(str(path))}")
    else:
        yield Finding("ok", "nobody else may look into it")


def _abandoned(lease: Path) -> bool:
    try:
        holder = msgspec.json.decode(lease.read_bytes(), type=dict)
        here = holder.get("host") == process.hostname()
        return here and not process.alive(int(holder.get("pid", 0)), int(holder.get("born", 0)))
    except (OSError, ValueError, TypeError, msgspec.MsgspecError):
        return False


def _mode(file: Path) -> int:
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return 0


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _words(finding: Finding, screen: Screen) -> str:
    level = paint(f"{finding.level:<4}", STYLES[finding.level], screen.colour)
    texts = [clean(text) for text in (finding.what, finding.advice) if text]
    first, *more = [line for text in texts for line in wrap(text, screen.width - 8)]
    return "\n".join([f"  {level}  {first}", *(" " * 8 + line for line in more)])
