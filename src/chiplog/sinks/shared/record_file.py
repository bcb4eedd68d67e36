"""The file of a record, for sinks that send it elsewhere: only what is inside the run, and no link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from chiplog.core import messages
from chiplog.core.files import reading
from chiplog.core.records import File

LARGEST = 256 << 20  # bytes of an image


def path_of(run: Path, record: File) -> Path | None:
    """The file or the folder of a record, if it is there and has only regular files of this run; otherwise None."""
    try:
        try:
            reading.status(run, record.path)
            with reading.open_file(run, record.path, single=True):
                pass
        except IsADirectoryError:
            _check_folder(run, record.path)
    except FileNotFoundError:
        return None  # it has been deleted
    except OSError as error:
        _report(record, error)
        return None
    return run / record.path


def contents_of(run: Path, record: File, most: int = LARGEST) -> bytes | None:
    """The bytes of the file of a record, if it is a regular file of this run; otherwise None."""
    try:
        return reading.read_bytes(run, record.path, most, single=True)
    except FileNotFoundError:
        return None  # it has been deleted
    except OSError as error:
        _report(record, error)
        return None


def _check_folder(run: Path, name: str) -> None:
    """Raise `OSError` unless a folder has only regular files with one name each, in the folders below too."""
    for path, about in reading.tree(run, name, strict=True):
        if stat.S_ISDIR(about.st_mode):
            continue
        if reading.status(run, path).st_nlink != 1:
            raise OSError(errno.EMLINK, "a hard link, whose other name may be outside the run", path)


def _report(record: File, error: OSError) -> None:
    why = error.strerror or str(error)
    messages.once(f"file {os.getpid()} {record.path}", f"the file {record.path!r} of the run is not sent: {why}")
