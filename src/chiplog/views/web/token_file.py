"""A private file that leads a browser to the page: other users can read the command line that starts a browser.

The command line has the path of the file, and only the file has the address with the token.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chiplog.core.paths import make_dir

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


@contextlib.contextmanager
def token_file(address: str, cache: Path) -> Iterator[Path]:
    """The file, in the user's cache directory or, if that cannot be written, in one of its own; until the end."""
    folder = cache / "ui"
    try:
        make_dir(folder)
        folder.chmod(0o700)
        descriptor, name = tempfile.mkstemp(".html", "chiplog-", folder)  # exclusive, mode 0600
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="chiplog-ui-"))  # mode 0700
        descriptor, name = tempfile.mkstemp(".html", "chiplog-", folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_page(address))
        yield path
    finally:
        path.unlink(missing_ok=True)
        if folder.parent != cache:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _page(address: str) -> str:
    target = address.translate(_ESCAPED)
    return (
        '<!doctype html>\n<meta charset="utf-8">\n<title>chiplog</title>\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta http-equiv="refresh" content="0; url={target}">\n<p><a href="{target}">Open the page</a></p>\n'
    )
