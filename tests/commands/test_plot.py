"""`chiplog plot`."""

from __future__ import annotations

import pytest

import chiplog

from .conftest import Cli


@pytest.mark.usefixtures("path")
def test_the_losses_are_drawn_when_nothing_is_named(cli: Cli) -> None:
    """Without a name the losses are drawn, with a legend."""
    out = cli("plot")[1]
    assert "train/loss" in out and "eval/loss" in out
    assert "train/tokens" not in out


@pytest.mark.usefixtures("path")
def test_a_pattern_stands_for_its_names(cli: Cli) -> None:
    """A name may be a pattern."""
    out = cli("plot", "latest", "train/*")[1]
    assert "train/loss" in out and "train/tokens" in out and "eval/loss" not in out


@pytest.mark.usefixtures("path")
def test_several_runs_in_one_plot(cli: Cli) -> None:
    """Runs are named with commas, and the legend says which curve is whose."""
    with chiplog.init(project="tiny-lm", id="second", sinks="none") as run:
        run.log({"train/loss": 1.0})
    out = cli("plot", "first,second", "train/loss")[1]
    assert "a try: train/loss" in out and "second: train/loss" in out


@pytest.mark.usefixtures("path")
def test_a_name_with_a_mistake(cli: Cli) -> None:
    """An unknown name gives the nearest ones."""
    code, _, err = cli("plot", "latest", "train/lss")
    assert code == 2
    assert "did you mean 'train/loss'" in err


@pytest.mark.usefixtures("path")
def test_the_size_is_as_asked(cli: Cli) -> None:
    """`--width` and `--height` are kept."""
    lines = cli("plot", "latest", "train/loss", "--width", "60", "--height", "5")[1].splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) == 1 + 5 + 3


def test_a_run_without_a_loss(cli: Cli) -> None:
    """Where there is no loss, the error names what there is."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"reward": 1.0})
    code, _, err = cli("plot")
    assert code == 2 and "reward" in err


@pytest.mark.usefixtures("path")
def test_curves_over_tokens(cli: Cli) -> None:
    """`--x tokens` has them on the axis."""
    out = cli("plot", "latest", "train/loss", "--x", "tokens")[1]
    assert out.rstrip().endswith("tokens") and "700k" in out


@pytest.mark.usefixtures("path")
def test_another_marker(cli: Cli) -> None:
    assert "▀" in cli("plot", "latest", "train/loss", "--marker", "hd")[1]


@pytest.mark.usefixtures("path")
def test_the_last_word_of_a_name_is_enough(cli: Cli) -> None:
    """`plot loss` draws every loss of the newest run; with a run, of that one."""
    for words in (("loss",), ("tiny-lm/latest", "loss")):
        code, out, _ = cli("plot", *words)
        assert code == 0 and "train/loss" in out and "eval/loss" in out
    assert "no run 'lss'" in cli("plot", "lss")[2]


@pytest.mark.usefixtures("path")
def test_series_of_different_size_have_their_own_scale(cli: Cli) -> None:
    """A loss is not a flat line because tokens are counted too; on a logarithmic scale there is room for both."""
    assert cli("plot", "latest", "train/*")[1].count("┌") == 2
    assert cli("plot", "latest", "train/*", "--log")[1].count("┌") == 1


@pytest.mark.usefixtures("path")
def test_a_series_with_a_typo_is_corrected(cli: Cli) -> None:
    """A first word that is neither a run nor a series may be meant as either."""
    code, _, err = cli("plot", "los")
    assert code == 2 and "no run" in err and err.endswith("did you mean 'loss'?\n")


@pytest.mark.usefixtures("path")
def test_a_run_behind_its_series_is_an_error_with_the_right_order(cli: Cli) -> None:
    """Instead of a series that is called like the run."""
    code, _, err = cli("plot", "loss", "lr", "first")
    assert code == 2 and err == "chiplog: the run comes first: chiplog plot first loss lr\n"
    assert "no series 'nosuch'" in cli("plot", "loss", "nosuch")[2]


def test_twelve_curves_have_a_character_each_and_the_whole_title(cli: Cli) -> None:
    """The legend has no sign twice, names of runs are short, and a title that is piped is not cut."""
    for number in range(12):
        with chiplog.init("a-project-with-a-name-" + "x" * 100, name=f"try-{number}", sinks="none") as run:
            run.log({"loss": 1.0 + number}, step=0)
            run.log({"loss": 2.0 + number}, step=1)
    out = cli("plot", "try-*", "loss")[1]
    assert out.splitlines()[0] == f"{run.project}: 12 runs"
    legend = [line for line in out.splitlines() if ": loss" in line]
    signs = [entry.split()[0] for line in legend for entry in line.split("  ") if ": loss" in entry]
    assert len(signs) == 12 == len(set(signs)), legend


@pytest.mark.usefixtures("path")
def test_options_may_stand_between_the_arguments(cli: Cli) -> None:
    """`plot first --x tokens train/loss` draws what it does with the option at the end."""
    between = cli("plot", "first", "--x", "tokens", "train/loss")
    assert between == cli("plot", "first", "train/loss", "--x", "tokens") and between[0] == 0
    assert cli("compare", "first", "--metric", "loss", "first")[2].count("twice") == 1
