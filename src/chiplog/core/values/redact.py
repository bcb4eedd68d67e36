"""Keeps secrets out of run directories: strings under revealing keys, and strings that look like keys themselves.

Data that chiplog collects (config, environment, command line, exceptions) goes through `redact`, which removes both.
Data that users log (events, tables, text, alerts) goes through `hide`, which removes only strings that look like keys:
a table with a column `token` is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from chiplog.core.records import Plain
from chiplog.core.values.text import Pattern

HIDDEN = "[redacted]"
LEAST_SECRET = 6  # characters; shorter values are in too many words

_WORDS = Pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET = frozenset(
    (
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "secret",
        "secrets",
        "credential",
        "credentials",
        "cookie",
        "dsn",
        "authorization",
    )
)
_PAIRS = frozenset((("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("auth", "key")))
_RUN_TOGETHER = frozenset(("apikey", "accesskey", "secretkey", "authtoken", "accesstoken"))
# Tokens of a tokenizer are not secrets: eos_token, image_token, stop_token, token_type, ...
_BEFORE_TOKEN = frozenset(
    (
        *("bos", "eos", "pad", "unk", "sep", "cls", "mask", "special", "added", "stop", "start", "end", "begin"),
        *("image", "video", "audio", "prefix", "suffix", "fim", "middle", "boi", "eoi", "newline", "space"),
        *("per", "max", "min", "num", "new", "next", "first", "last", "decoder", "encoder"),
    )
)
_AFTER_TOKEN = frozenset(("id", "ids", "type", "types"))
_VALUE = Pattern(
    r"^(?:sk-(?=[\w-]*\d)[\w-]{8,}|pk-(?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w+|glpat-[\w-]+|xox[abprs]-[\w-]+|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}"
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*|npm_[A-Za-z0-9]{16,}|pypi-\w{16,}|wandb_v1_\w+|r8_[A-Za-z0-9]{16,})$"
    r"|^(?:Bearer|Basic) \S+$|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
# Each of these takes linear time: repetition is bounded, or starts only at the start of a word.
_INSIDE = Pattern(
    r"\b(?:sk-(?=[\w-]{0,80}\d)[\w-]{16,}|hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}"
    r"|Bearer (?=\S{0,80}\d)[\w.~+/-]{16,}=*)"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+|(?<=hooks\.slack\.com/services/)\S+"
)
_HEADER_WORDS = ("apikey", "key", "token", "auth", "secret", "password")
_HEADER = Pattern(  # a header of HTTP, to the end of the line or of the quotes around it
    rf"(?i)(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie|[\w-]{{0,40}}-(?:{'|'.join(_HEADER_WORDS)}))"
    r"(\s{0,3}:\s{0,3})(?!\[redacted\])[^\s\"'][^\r\n\"']*"
)
_HEADER_ARGUMENT = Pattern(r"([\w-]{1,80})(\s{0,3}:\s{0,3}).+")  # a whole word of a command line
_LOGIN = Pattern(r"([^:]+):.+")  # user and password, as `curl -u` takes them
_LOGIN_FLAGS = ("-u", "--user", "-U", "--proxy-user")
_FOLDERS = ("PWD", "OLDPWD")  # variables of every shell; a password has another name
_USERINFO = Pattern(r"(?<=://)[^/\s@]+(?=@)")
_QUERY = Pattern(r"(?i)([?&][\w-]*(?:api[_-]?key|token|secret|password|signature|credential)=|[?&]sig=)[^&\s\"'#]+")
_NAMED = Pattern(r"(?<![\w.-])([A-Za-z][\w.-]*)[\"']?\s?([=:])\s?")  # `api_key=`, `"api_key": `
_QUOTED = Pattern(r"'[^']*'|\"[^\"]*\"")
_BARE = Pattern(r"[^\s\"'&,;)}\]]+")
# Text without any of these has nothing to hide; searching for them is cheap, even in long text.
_MARKS = (
    *("://", "sk-", "pk-", "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "AKIA"),
    *("uthorization", "UTHORIZATION", "ookie", "OOKIE", "-ApiKey"),
    *(f"-{form(word)}" for word in _HEADER_WORDS for form in (str.lower, str.capitalize, str.upper)),
    *("ASIA", "AIza", "eyJ", "npm_", "pypi-", "wandb_v1_", "r8_", "Bearer ", "Basic ", "PRIVATE KEY", "slack.com"),
)


def redact(value: Plain, key: str = "") -> Plain:
    """Plain data without its secrets. Only strings are hidden: `num_tokens`, `tokenizer` and a commit stay."""
    if isinstance(value, str):
        return HIDDEN if value and is_secret_key(key) else redact_words(value)
    if isinstance(value, Mapping):
        return {
            name: redact(item, f"{key}.{name}" if is_secret_key(key) else str(name)) for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(item, key) for item in value]
    return value


def hide(value: Plain) -> Plain:
    """Plain data that users logged, without strings that look like keys; names are not considered."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {name: hide(item) for name, item in value.items()}
    return [hide(item) for item in value] if isinstance(value, list) else value


def redact_text(text: str) -> str:
    """Text with everything that looks like a key hidden, and URLs without user, password and tokens."""
    if not text or not any(mark in text for mark in _MARKS):
        return text
    if _VALUE.compiled.search(text):
        return HIDDEN
    text = _HEADER.compiled.sub(rf"\1\2{HIDDEN}", text)
    text = _QUERY.compiled.sub(rf"\1{HIDDEN}", _USERINFO.compiled.sub(HIDDEN, text))
    return _INSIDE.compiled.sub(HIDDEN, text)


def redact_words(text: str) -> str:
    """As `redact_text`, and without values labelled as secrets: `api_key='…'`, `password=…`, `"token": "…"`."""
    pieces: list[str] = []
    done = 0
    for named in _NAMED.compiled.finditer(text):
        if named.start() < done or not is_secret_key(named[1]):
            continue
        value = _QUOTED.compiled.match(text, named.end())
        if value is None and named[2] == "=":
            value = _BARE.compiled.match(text, named.end())
        if value is not None and not text.startswith(HIDDEN, named.end()):
            pieces += text[done : named.end()], HIDDEN
            done = value.end()
    return redact_text("".join((*pieces, text[done:])))


def redact_command(argv: Sequence[str]) -> list[str]:
    """A command line without its secrets: `--api-key=…`, `--token …`, `PASSWORD=…`, headers of HTTP, `-u user:…` and
    values that look like keys."""
    shown: list[str] = []
    hide_next = False
    before = ""
    for word in argv:
        flag, equals, value = word.partition("=")
        login = flag if flag in _LOGIN_FLAGS else before if before in _LOGIN_FLAGS else ""
        header = _HEADER_ARGUMENT.compiled.fullmatch(value if equals and flag.startswith("-") else word)
        if hide_next:  # even if it starts with a dash: hiding a flag by mistake does no harm
            shown.append(HIDDEN)
        elif equals and is_secret_key(flag):
            shown.append(f"{flag}={HIDDEN}")
        elif header is not None and is_secret_key(header[1]):
            shown.append(f"{word[: -len(header[0])]}{header[1]}{header[2]}{HIDDEN}")
        elif login and (pair := _LOGIN.compiled.fullmatch(value if flag == login else word)):
            shown.append(f"{word[: -len(pair[0])]}{pair[1]}:{HIDDEN}")
        elif equals:
            shown.append(f"{flag}={redact_words(value)}")
        else:
            shown.append(redact_words(word))
        before = word
        hide_next = word.startswith("-") and not equals and is_secret_key(word)
    return shown


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """The secrets among the variables of an environment, judged by their names; the longest first."""
    secrets = {
        value
        for name, value in environ.items()
        if len(value) >= LEAST_SECRET and name not in _FOLDERS and is_secret_key(name)
    }
    return sorted(secrets, key=len, reverse=True)


def redact_values(text: str, secrets: Sequence[str]) -> str:
    """Text from outside, such as the answer of a service, without these values and without what looks like a key."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return redact_words(text)


def is_secret_key(key: str) -> bool:
    """Whether a key names a secret, judged by whole words."""
    words = [word.lower() for word in _WORDS.compiled.findall(key)]
    if _SECRET.intersection(words) or _RUN_TOGETHER.intersection(words) or _PAIRS.intersection(pairwise(words)):
        return True
    return any(
        word == "token"
        and not _BEFORE_TOKEN.intersection(words[:at])
        and not _AFTER_TOKEN.intersection(words[at + 1 :])
        for at, word in enumerate(words)
    )
