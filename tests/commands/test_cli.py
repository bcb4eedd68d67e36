"""The command line as a whole: arguments, mistakes and exit codes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from chiplog.cli import main, parser

from .conftest import Cli


def test_a_mistake_is_one_line_and_code_2(cli: Cli) -> None:
    """An unknown run gives one line on stderr and exit code 2, without a traceback."""
    code, out, err = cli("show", "nothing")
    assert (code, out) == (2, "")
    assert err.startswith("chiplog: no run 'nothing'")
    assert err.count("\n") == 1


def test_dir_may_stand_before_or_behind_the_verb(cli: Cli, path: Path) -> None:
    """`--dir` is understood on both sides of the verb."""
    root = path.parent.parent
    assert cli("--dir", root, "ls")[1] == cli("ls", "--dir", root)[1]
    assert "first" in cli("ls", "--dir", root)[1]


def test_the_environment_says_where_runs_are(
    cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without `--dir`, `CHIPLOG_DIR` is looked into."""
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    monkeypatch.setenv("CHIPLOG_DIR", str(path.parent.parent))
    assert "first" in cli("ls")[1]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("which", ["first", "fir", "tiny-lm/first", "a try", "latest", "runs/tiny-lm/first"])
def test_a_run_goes_by_many_names(cli: Cli, which: str) -> None:
    """A run is found by id, its beginning, project/id, name, `latest` and path."""
    assert cli("cat", which, "--kind", "eval")[1].count("\n") == 1


def test_alone_it_prints_its_help(cli: Cli) -> None:
    """All verbs and examples, and no error."""
    code, out, _ = cli()
    assert code == 0 and "chiplog ls" in out and "doctor" in out


def test_help_is_a_verb_too(cli: Cli) -> None:
    """As in git: of the program, and of a verb."""
    assert cli("help")[:2] == cli()[:2]
    with pytest.raises(SystemExit) as done:
        cli("help", "show")
    assert done.value.code == 0
    assert "no verb 'shwo'" in cli("help", "shwo")[2]


@pytest.mark.parametrize(("word", "answer"), [("rm", "`rm -r`"), ("delete", "`rm -r`"), ("version", "--version")])
def test_what_is_not_a_verb_has_an_answer(cli: Cli, word: str, answer: str) -> None:
    """Of those that people try."""
    code, _, err = cli(word, "latest")
    assert code == 2 and answer in err and err.count("\n") == 1


@pytest.mark.parametrize("words", [["shwo"], ["--dir", "runs", "shwo"]])
def test_a_verb_with_a_mistake(cli: Cli, words: list[str]) -> None:
    """The error has the similar one, and all of them."""
    code, _, err = cli(*words)
    assert code == 2 and "no verb 'shwo'; did you mean 'show'" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["plot", "first", "--lgo", "loss"], "unrecognized arguments: --lgo loss (did you mean '--log'?); usage: "),
        (["plot", "first", "--marker", "x"], "argument --marker: invalid choice: 'x'"),
        (["tail", "a", "b"], "unrecognized arguments: b"),
        (["compare"], "the following arguments are required: RUN"),
        (["show", "--of"], "argument --of: expected one argument"),
    ],
)
def test_every_usage_error_is_one_line(cli: Cli, words: list[str], what: str) -> None:
    """With the usage of its verb, not that of the whole program."""
    code, out, err = cli(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"chiplog: {what}") and f"usage: chiplog {words[0]} " in err


def test_every_verb_has_help_without_its_packages() -> None:
    """Help needs neither numpy nor pyarrow nor h11."""
    script = (
        "import sys\n"
        "for name in ('numpy', 'pyarrow', 'h11'): sys.modules[name] = None\n"
        "from chiplog.cli import main\n"
        "for verb in sys.argv[1:]:\n"
        "    try: code = main([verb, '--help'])\n"
        "    except SystemExit as end: code = end.code\n"
        "    assert code == 0, verb\n"
    )
    subprocess.run([sys.executable, "-c", script, *VERBS], capture_output=True, check=True)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` says which one this is."""
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("chiplog 0.")


VERBS = next(action.choices for action in parser()._actions if isinstance(action, argparse._SubParsersAction))


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its help has a sentence, an example of that verb, and a word about each argument."""
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"{VERBS[name].description}" in text and f"example: chiplog {name}" in text
    assert [action.dest for action in VERBS[name]._actions if not action.help] == []


@pytest.mark.parametrize(
    "words", [["--help"], ["ls", "--help"], ["show", "--help"], ["tail", "--help"], ["ui", "--help"]]
)
def test_help_loads_no_arrays(words: list[str]) -> None:
    """Only the named verb is imported, and numpy only by verbs that cannot do without."""
    script = (
        "import sys, chiplog.cli\n"
        "try: chiplog.cli.main(sys.argv[1:])\n"
        "finally: print({'numpy', 'pyarrow'} & set(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


@pytest.mark.usefixtures("path")
def test_a_missing_package_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numpy, `plot` says what to install."""
    for name in [
        name for name in sys.modules if name.startswith(("chiplog.views.charts.text_plot", "chiplog.commands.plot"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("chiplog.views.charts.text_plot", raising=False)  # from which it would be imported, too
    monkeypatch.setitem(sys.modules, "numpy", None)
    code, _, err = cli("plot")
    assert code == 2
    assert "pip install 'chiplog[read]'" in err and err.count("\n") == 1


@pytest.mark.usefixtures("path")
def test_looking_at_a_list_loads_no_arrays() -> None:
    """`chiplog ls` imports neither numpy nor pyarrow, so that it starts at once."""
    script = "import sys, chiplog.cli; chiplog.cli.main(['ls']); print({'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


@pytest.mark.usefixtures("path")
def test_it_is_a_module_too() -> None:
    """`python -m chiplog` does the same."""
    done = subprocess.run([sys.executable, "-m", "chiplog", "ls"], capture_output=True, text=True, check=True)
    assert "first" in done.stdout


@pytest.mark.usefixtures("path")
def test_a_reader_that_goes_away_is_no_trouble() -> None:
    """`chiplog cat | head -1` ends without a word on stderr."""
    words = f"{sys.executable} -m chiplog cat latest | head -1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
