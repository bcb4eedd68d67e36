"""The files of the page as they are sent: modules bundled into one script, every file named after its content.

A browser fetches a file once and caches it for good, and makes one request instead of one per module.
"""

from __future__ import annotations

import gzip
import re
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path

from chiplog.views.web.http import Request, Response

ASSETS = Path(__file__).parent / "assets"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOREVER = "max-age=31536000, immutable"

_IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)


class Asset:
    """A file of the page as it is sent."""

    def __init__(self, plain: bytes, suffix: str, keep: str = FOREVER) -> None:
        self.digest = blake2b(plain, digest_size=8).hexdigest()
        self._plain, self._type, self._keep = plain, TYPES[suffix], keep

    @cached_property
    def _packed(self) -> bytes:
        return gzip.compress(self._plain, 6, mtime=0)

    def answer(self, request: Request) -> Response:
        tag = f'"{self.digest}"'
        headers = (("etag", tag), ("cache-control", self._keep), ("vary", "accept-encoding"))
        if request.header("if-none-match") == tag:
            return Response(304, b"", headers)
        packed = "gzip" in (request.header("accept-encoding") or "")
        coding = (("content-encoding", "gzip"),) if packed else ()
        return Response(200, self._packed if packed else self._plain, (("content-type", self._type), *headers, *coding))

    @property
    def shipped(self) -> int:
        """The size in bytes as sent."""
        return len(self._packed)


@cache
def files() -> dict[str, Asset]:
    """The page's files by path: only these are served."""
    assets = {}
    page = source("index.html")
    for name, text in (
        ("main.js", script("main")),
        ("style.css", source("style.css")),
        ("icon.svg", source("icon.svg")),
    ):
        asset = Asset(text.encode(), Path(name).suffix)
        address = f"{Path(name).stem}-{asset.digest}{Path(name).suffix}"
        assets[f"/{address}"] = asset
        page = page.replace(f'="{name}"', f'="{address}"')
    index = Asset(page.encode(), ".html", "no-cache")
    return {**assets, "/": index, "/index.html": index}


@cache
def source(name: str) -> str:
    """The source of a file."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """Bundle modules and their imports: each in its own scope, after the ones it needs.

    The last one may use `await`, and must not be imported.
    """
    ordered: dict[str, None] = {}
    for name in names:
        _gather(name, ordered)
    *inner, last = ordered
    return "".join([*(_scoped(name) for name in inner), _body(last)])


def _gather(name: str, into: dict[str, None]) -> None:
    for _, other in _IMPORT.findall(source(f"{name}.js")):
        if other not in into:
            _gather(other, into)
    into[name] = None


def _scoped(name: str) -> str:
    exports = ", ".join(_EXPORT.findall(source(f"{name}.js")))
    return f"const ${name} = (() => {{\n{_body(name)}return {{ {exports} }};\n}})();\n"


def _body(name: str) -> str:
    def imported(match: re.Match[str]) -> str:
        return f"const {{ {match[1].replace(' as ', ': ')} }} = ${match[2]};"

    return _EXPORT.sub("", _IMPORT.sub(imported, source(f"{name}.js")))
