"""`chiplog export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli


@pytest.mark.usefixtures("path")
def test_the_file_is_named_by_the_id(cli: Cli, tmp_path: Path) -> None:
    """Without `-o` the file is here and has the run's id."""
    code, out, _ = cli("export", "latest", "--to", "csv")
    assert code == 0 and out.startswith("first.csv  ")
    assert (tmp_path / "first.csv").read_text().startswith("step,eval/loss,train/loss,train/tokens\n0,,2.0,0\n")


@pytest.mark.usefixtures("path")
def test_into_a_directory(cli: Cli, tmp_path: Path) -> None:
    """`-o` may be a directory; nothing but the file is left there."""
    (tmp_path / "out").mkdir()
    cli("export", "latest", "--to", "json", "-o", tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["first.json"]


@pytest.mark.usefixtures("path")
def test_the_name_of_the_file_is_a_format(cli: Cli, tmp_path: Path) -> None:
    """Without `--to` it is that of its ending; without either, the message has the formats."""
    assert cli("export", "-o", "run.parquet")[0] == 0
    assert (tmp_path / "run.parquet").read_bytes()[:4] == b"PAR1"
    for words in ((), ("-o", "run.xls"), ("-o", "-")):
        code, _, err = cli("export", *words)
        assert code == 2 and err.startswith("chiplog: name a format with --to: csv, parquet, json, h5, nc, ")


@pytest.mark.usefixtures("path")
def test_to_a_pipe(cli: Cli) -> None:
    """`-o -` writes to stdout, and nothing else does."""
    assert len(json.loads(cli("export", "--to", "json", "-o", "-")[1])) == len(cli("cat")[1].splitlines())


@pytest.mark.usefixtures("path")
def test_parquet_is_not_for_a_pipe(cli: Cli) -> None:
    """A Parquet file needs a name."""
    assert cli("export", "--to", "parquet", "-o", "-")[0] == 2


@pytest.mark.usefixtures("path")
def test_a_place_that_is_not_there(cli: Cli) -> None:
    """A directory that does not exist is one line and code 2."""
    code, _, err = cli("export", "--to", "csv", "-o", "nowhere/x.csv")
    assert code == 2 and err == "chiplog: nowhere: No such file or directory\n"
