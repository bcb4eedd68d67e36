"""The arguments of `chiplog show`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.conftest import Cli


def test_page_and_data_are_about_the_same_run(cli: Cli, path: Path) -> None:
    """`--json` prints the state, the series and the sinks of the page as data."""
    page, data = cli("show", path)[1], json.loads(cli("show", path, "--json")[1])
    assert page.startswith(f"{data['project']}/{data['id']}  {data['name']}  {data['state']}\n")
    assert all(name in page for name in (*data["series"], *data["sinks"]))
    assert data["series"]["train/loss"]["points"] == 50
