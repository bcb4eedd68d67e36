"""Makes printed text safe to show again: strips every escape sequence except colours."""

from __future__ import annotations

import re

from chiplog.core.messages import clean

# A sequence ends where it should, or at the end of the text: a terminal would swallow the rest too.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours and cursor movement
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, the clipboard, ...
    r"|\x1b[ -/]*[0-~]?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
RESET = "\x1b[0m"


def plain(text: str) -> str:
    """The text without escape sequences; other control characters become visible, tabs become spaces."""
    return clean(_ESCAPE.sub("", text).expandtabs(8))


def coloured(text: str) -> str:
    """Like `plain`, but with colours (CSI … m), which are reset at the end."""
    out: list[str] = []
    done = 0
    painted = False
    for escape in _ESCAPE.finditer(text):
        out.append(clean(text[done : escape.start()].expandtabs(8)))
        if _COLOUR.fullmatch(escape[0]):
            out.append(escape[0])
            painted = True
        done = escape.end()
    out.append(clean(text[done:].expandtabs(8)))
    return "".join(out) + RESET * painted
