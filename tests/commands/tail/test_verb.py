"""The end of `chiplog tail`."""

from __future__ import annotations

import pytest

from tests.commands.conftest import Cli


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("words", [[], ["--console"]])
def test_the_last_line_is_the_state(cli: Cli, words: list[str]) -> None:
    """Whether records or printed lines were shown."""
    assert cli("tail", "first", *words)[1].splitlines()[-1] == "== finished"
