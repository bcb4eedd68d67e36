"""What `reduce=` may say."""

from __future__ import annotations

import pytest

from chiplog.core.errors import BadSetting
from chiplog.metrics.ranks.statistics import Extras
from chiplog.runtime.ranks.reduce_options import ReduceOptions, options_for


@pytest.mark.parametrize(
    ("reduce", "world", "no_reduce", "expected"),
    [
        (None, 1, "", None),
        (None, 2, "", ReduceOptions(asked=False)),
        (None, 384, "", ReduceOptions(asked=False)),
        (None, 385, "", ReduceOptions(asked=False, every=10)),
        (True, 385, "", ReduceOptions()),
        (False, 8, "", None),
        ("off", 8, "", None),
        ("sync", 8, "1", None),
        ("sync", 8, "0", ReduceOptions(sync=True)),
        ("sync", 1, "", None),
        ("sync, all", 8, "", ReduceOptions(sync=True, everyone=True)),
        ("every=7,deadline=2.5", 8, "", ReduceOptions(every=7, deadline=2.5)),
        ("count,where,p50,p99,counters", 8, "", ReduceOptions(counters=True, extras=Extras(True, True, (50, 99)))),
    ],
)
def test_words_make_a_plan(
    reduce: bool | str | None, world: int, no_reduce: str, expected: ReduceOptions | None
) -> None:
    """Every step up to 384 ranks, every tenth beyond, unless something is said; `CHIPLOG_NO_REDUCE` ends it all."""
    assert options_for(reduce, world, no_reduce) == expected


@pytest.mark.parametrize("words", ["often", "every=0", "every=x", "p101", "deadline=-1", "sync;all"])
@pytest.mark.parametrize("world", [1, 8])
def test_a_wrong_word_is_told_with_the_right_ones(words: str, world: int) -> None:
    """Also on one process, where it would do nothing: the mistake is found before the cluster is."""
    with pytest.raises(BadSetting, match="every=N"):
        options_for(words, world, "")
