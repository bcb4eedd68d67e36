"""Secrets stay out of run directories: strings under telling keys, and strings that look like keys themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from chiplog.core.texts import Pattern

HIDDEN = "[redacted]"

_WORDS = Pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET = frozenset(
    ("password", "passwd", "pwd", "passphrase", "secret", "secrets", "credential", "credentials", "cookie", "dsn")
)
_PAIRS = frozenset((("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("auth", "key")))
_RUN_TOGETHER = frozenset(("apikey", "accesskey", "secretkey", "authtoken", "accesstoken"))
# A token of a tokenizer is no secret: eos_token, image_token, stop_token, token_type, ...
_BEFORE_TOKEN = frozenset(
    (
        *("bos", "eos", "pad", "unk", "sep", "cls", "mask", "special", "added", "stop", "start", "end", "begin"),
        *("image", "video", "audio", "prefix", "suffix", "fim", "middle", "boi", "eoi", "newline", "space"),
        *("per", "max", "min", "num", "new", "next", "first", "last", "decoder", "encoder"),
    )
)
_AFTER_TOKEN = frozenset(("id", "ids", "type", "types"))
_VALUE = Pattern(
    r"^(?:sk-[\w-]{8,}|pk-[\w-]{16,}|hf_\w{8,}|gh[opsur]_\w{8,}|github_pat_\w+|glpat-[\w-]+|xox[abprs]-[\w-]+"
    r"|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]+\.[\w-]+\.[\w-]*|npm_\w{16,}|pypi-\w{16,}|wandb_v1_\w+|r8_\w{16,})$"
    r"|^(?:Bearer|Basic) \S+$|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_INSIDE = Pattern(
    r"\b(?:sk-[\w-]{16,}|hf_\w{16,}|gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_USERINFO = Pattern(r"(?<=://)[^/\s@]+(?=@)")


def redact(value: Any, key: str = "") -> Any:
    """Plain data without its secrets. Only strings are ever hidden: `num_tokens`, `tokenizer` and a commit stay."""
    if isinstance(value, str):
        return HIDDEN if value and is_secret_key(key) else redact_text(value)
    if isinstance(value, Mapping):
        return {
            name: redact(item, f"{key}.{name}" if is_secret_key(key) else str(name)) for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(item, key) for item in value]
    return value


def redact_text(text: str) -> str:
    """A text with whatever looks like a key in it hidden, and URLs without user and password."""
    if _VALUE.compiled.search(text):
        return HIDDEN
    return _INSIDE.compiled.sub(HIDDEN, _USERINFO.compiled.sub(HIDDEN, text))


def redact_command(argv: Sequence[str]) -> list[str]:
    """A command line without its secrets: `--api-key=…`, `--token …`, `PASSWORD=…` and telling values."""
    shown: list[str] = []
    hide_next = False
    for word in argv:
        flag, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            shown.append(HIDDEN)
        elif equals and is_secret_key(flag):
            shown.append(f"{flag}={HIDDEN}")
        elif equals:
            shown.append(f"{flag}={redact_text(value)}")
        else:
            shown.append(redact_text(word))
        hide_next = word.startswith("-") and not equals and is_secret_key(word)
    return shown


def is_secret_key(key: str) -> bool:
    """Whether a key says that its value is a secret, judged by whole words."""
    words = [word.lower() for word in _WORDS.compiled.findall(key)]
    if _SECRET.intersection(words) or _RUN_TOGETHER.intersection(words) or _PAIRS.intersection(pairwise(words)):
        return True
    return any(
        word == "token"
        and not _BEFORE_TOKEN.intersection(words[:at])
        and not _AFTER_TOKEN.intersection(words[at + 1 :])
        for at, word in enumerate(words)
    )
