"""The language that chooses runs: `lr>0.001 and state=finished`, on the command line, in Python and in searches.

    query   the tests that must hold, side by side or joined by `and`; `or` between groups; `not` or `-` before one
    test    KEY OP VALUE, or a word, which is searched in project, name, id, state and tags
    KEY     a setting (`lr`, `model.dim`), a metric (`eval/loss`), or a field: see `FIELDS`
    OP      =  !=  <  <=  >  >=   and `~` for "contains"; `:` is `=`
    VALUE   a number (`3e-4`, `10k`), a text, a pattern (`resnet*`), several (`a,b`), a range (`1e-4..1e-3`, `10..`);
            of `ran` and `age` a duration (`90s`, `2h`, `1d12h`); of `started` a time (`today`, `yesterday`, `-2h` for
            two hours ago, `2026-11-18`, `2026-11-18T09:30`)

Quotes keep spaces and signs together: `name="a try"`. Whatever is not understood is an error that says so.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

from chiplog.core.errors import BadQuery

Value: TypeAlias = int | float | bool | str | Sequence[str] | None
Lookup: TypeAlias = Callable[[str], Value]  # the value of a key in one run; None if it has none
Test: TypeAlias = Callable[[Lookup], bool]

SEARCHED = ("project", "name", "id", "state", "tag")  # by a word alone
TIMES = ("started",)
DURATIONS = ("ran", "age")
FIELDS = (*SEARCHED, "step", "loss", *TIMES, *DURATIONS)
DEEPEST = 50  # parentheses and negations inside each other
EXAMPLE = "write KEY OP VALUE, such as lr>0.001, state=finished or started>-2h"

_TEST = re.compile(
    r"""(?P<key>"[^"]*"|[^\s()"<>=!~:]+)\s*(?P<op><=|>=|!=|==|[<>=:~])\s*(?P<value>(?:"[^"]*"|[^\s()"<>=!~])(?:"[^"]*"|[^\s()"])*)"""
)
_WORD = re.compile(r"""[^\s()"]*"[^"]*"|[^\s()"]+|"[^"]*""")
_JOIN = re.compile(r"(and|or|not)(?=[\s()]|$)", re.IGNORECASE)
_ITEM = re.compile(r"""((?:"[^"]*"|[^,"])*)(?:,|$)""")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Query:
    """A query, parsed; call it with the values of a run.

    >>> Query("lr>0.001 and -state=failed")({"lr": 0.01, "state": "finished"}.get)
    True
    """

    def __init__(self, text: str, now: float | None = None) -> None:
        self.text = text
        parser = _Parser(text, time.time() if now is None else now)
        self._test = parser.parse()
        self.keys = tuple(dict.fromkeys(parser.keys))  # that tests name, in their order
        self.wanted = tuple(parser.wanted)  # the values that keys must equal

    def __call__(self, lookup: Lookup) -> bool:
        return self._test(lookup)


class _Span(NamedTuple):
    """What a value covers: one number, or a range with its ends; a day is a range, too."""

    low: float
    high: float
    ends: bool  # whether `high` belongs to it

    def holds(self, number: float) -> bool:
        return self.low <= number < self.high or (self.ends and number == self.high)


class _Parser:
    def __init__(self, text: str, now: float) -> None:
        self._text, self._at, self._now = text, 0, now
        self._depth = 0
        self.keys: list[str] = []
        self.wanted: list[tuple[str, str]] = []

    def parse(self) -> Test:
        if not self._text.strip():
            return lambda _: True
        test = self._any()
        if self._at < len(self._text):
            raise self._error(f"unexpected ')' at {self._rest()!r}")
        return test

    def _any(self) -> Test:
        groups = [self._all()]
        while self._join("or"):
            groups.append(self._all())
        return groups[0] if len(groups) == 1 else lambda lookup: any(group(lookup) for group in groups)

    def _all(self) -> Test:
        tests = [self._one()]
        while True:
            joined = self._join("and")
            if not joined and (self._ended() or self._peek_or()):
                return tests[0] if len(tests) == 1 else lambda lookup: all(test(lookup) for test in tests)
            tests.append(self._one())

    def _one(self) -> Test:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} parentheses and negations inside each other")
        test = self._negated_or_grouped()
        self._depth -= 1
        return test

    def _negated_or_grouped(self) -> Test:
        self._skip()
        if self._ended() or self._peek_or() or (self._peek() or "") == "and":
            raise self._error(
                f"a test is missing at {self._rest()!r}" if self._rest() else "a test is missing at the end"
            )
        if self._join("not") or self._take("-"):
            inner = self._one()
            return lambda lookup: not inner(lookup)
        if self._take("("):
            inside = self._any()
            if not self._take(")"):
                raise self._error("a ')' is missing")
            return inside
        if match := _TEST.match(self._text, self._at):
            self._at = match.end()
            return self._compare(_unquoted(match["key"]), match["op"], match["value"])
        match = _WORD.match(self._text, self._at)
        if match is None or match[0].count('"') == 1:
            raise self._error(f"cannot parse {self._rest()!r}")
        if re.search(r"[<>=!~:]", re.sub(r'"[^"]*"', "", match[0])):
            raise self._error(f"cannot parse {self._rest()!r}")
        self._at = match.end()
        return _search(_unquoted(match[0]))

    # -- one test --------------------------------------------------------------------------------------------------

    def _compare(self, key: str, op: str, text: str) -> Test:
        self.keys.append(key)
        if op in ("<", "<=", ">", ">="):
            return self._order(key, op, text)
        contains = op == "~"
        if op in ("=", "==", ":"):
            self.wanted += [(key, _unquoted(item)) for item in _ITEM.findall(text) if item]
        items = [self._equal(key, item, contains) for item in _ITEM.findall(text) if item]

        def test(lookup: Lookup) -> bool:
            value = lookup(key)
            values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
            matched = any(item(one) for one in values for item in items)
            return not matched and value is not None if op == "!=" else matched

        return test

    def _order(self, key: str, op: str, text: str) -> Test:
        bounds = self._span(key, _unquoted(text))
        if bounds is None:
            raise self._error(f"{key}{op}{text}: {text!r} is not a number")
        low, high = bounds.low, bounds.high
        checks: dict[str, Callable[[float], bool]] = {
            "<": lambda number: number < low,
            "<=": lambda number: number < high or (bounds.ends and number == high),
            ">": lambda number: number >= high and not (bounds.ends and number == high),
            ">=": lambda number: number >= low,
        }

        def test(lookup: Lookup) -> bool:
            number = _number(lookup(key))
            return number is not None and checks[op](number)

        return test

    def _equal(self, key: str, item: str, contains: bool) -> Callable[[Value], bool]:
        text = _unquoted(item)
        bounds = None if contains or item.startswith('"') else self._range(key, text)
        pattern = text.casefold()
        glob = not contains and not item.startswith('"') and any(sign in text for sign in "*?[")

        def test(value: Value) -> bool:
            if bounds is not None and (number := _number(value)) is not None:
                return bounds.holds(number)
            own = "none" if value is None else str(value).casefold()
            return pattern in own if contains else own == pattern or (glob and fnmatchcase(own, pattern))

        return test

    def _range(self, key: str, text: str) -> _Span | None:
        """The numbers that a value covers; None if it is a text."""
        first, dots, last = text.partition("..")
        if not dots:
            return self._span(key, text)
        low, high = self._span(key, first) if first else None, self._span(key, last) if last else None
        if (low is None and first) or (high is None and last):
            if key in (*TIMES, *DURATIONS) or low or high:
                raise self._error(f"{key}={text}: a range is two numbers, such as 1e-4..1e-3")
            return None
        return _Span(low.low if low else -math.inf, high.high if high else math.inf, high.ends if high else True)

    def _span(self, key: str, text: str) -> _Span | None:
        if key in TIMES:
            return self._time(key, text)
        if key in DURATIONS and _DURATION.fullmatch(text):
            seconds = _seconds(text)
            return _Span(seconds, seconds, True)
        number = _number(text[:-1]) if text[-1:] in _SUFFIXES else _number(text)
        if number is None:
            if key in DURATIONS:
                raise self._error(f"{key}: {text!r} is not a duration; write 90s, 2h or 1d12h")
            return None
        number *= _SUFFIXES.get(text[-1:], 1.0)
        return _Span(number, number, True)

    def _time(self, key: str, text: str) -> _Span:
        """A moment or a day, in seconds since the epoch."""
        word = text.lower().removesuffix(" ago")
        if text.startswith("-") or word != text.lower():
            word = word.removeprefix("-")
            if _DURATION.fullmatch(word):
                moment = self._now - _seconds(word)
                return _Span(moment, moment, True)
        midnight = datetime.fromtimestamp(self._now).replace(hour=0, minute=0, second=0, microsecond=0)
        days = {"today": 0, "yesterday": 1}
        try:
            start = midnight - timedelta(days=days[word]) if word in days else datetime.fromisoformat(text)
            moment, whole = start.timestamp(), word in days or bool(_DAY.fullmatch(text))
            return _Span(moment, (start + timedelta(days=1)).timestamp() if whole else moment, not whole)
        except (ValueError, OverflowError, OSError):  # the last two: years that the system has no seconds for
            raise self._error(
                f"{key}: {text!r} is not a time; write -2h for two hours ago, today, yesterday or 2026-11-18"
            ) from None

    # -- the text --------------------------------------------------------------------------------------------------

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _ended(self) -> bool:
        self._skip()
        return self._at >= len(self._text) or self._text[self._at] == ")"

    def _peek(self) -> str | None:
        self._skip()
        match = _JOIN.match(self._text, self._at)
        return match[1].lower() if match else None

    def _peek_or(self) -> bool:
        return self._peek() == "or"

    def _join(self, word: str) -> bool:
        if self._peek() != word:
            return False
        self._at += len(word)
        return True

    def _take(self, sign: str) -> bool:
        self._skip()
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _rest(self) -> str:
        rest = self._text[self._at :].strip()
        return rest if len(rest) <= 40 else f"{rest[:39]}…"

    def _error(self, reason: str) -> BadQuery:
        return BadQuery(f"{self._text!r}: {reason}; {EXAMPLE}")


def _search(word: str) -> Test:
    wanted = word.casefold()
    glob = any(sign in wanted for sign in "*?[")

    def test(lookup: Lookup) -> bool:
        for key in SEARCHED:
            value = lookup(key)
            for text in (value,) if isinstance(value, str) or not isinstance(value, Sequence) else value:
                own = str(text or "").casefold()
                if wanted in own or (glob and fnmatchcase(own, wanted)):
                    return True
        return False

    return test


def _unquoted(text: str) -> str:
    return text.replace('"', "")


def _number(value: Value) -> float | None:
    if isinstance(value, (str, int, float)):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return None if math.isnan(number) else number
    return None


def _seconds(text: str) -> float:
    return sum(float(count) * _UNITS[unit] for count, unit in re.findall(r"([\d.]+)([smhdw])", text))
