import io
import os
import re
import subprocess
import sys
import time

import pytest

import chiplog
from chiplog.demo.train import demo


class Shown:
    """A demo of some steps in a process of its own: its exit code, its words and its run."""

    def __init__(self, dir):
        code = (
            f"import sys; from chiplog.demo.train import demo; sys.exit(demo(dir={str(dir)!r}, steps=400, sinks='csv'))"
        )
        # One thread: several wait for each other where the tests keep all cores busy.
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=False)
        self.code, self.text, self.errors = done.returncode, done.stdout, done.stderr
        self.run = chiplog.read(next((dir / "demo").iterdir()))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return Shown(tmp_path_factory.mktemp("runs"))


def test_the_demo_really_trains(shown):
    """The stored losses begin near ln 50 and fall by more than one nat, on text the model has not seen as well."""
    train, held_out = shown.run.series("train/loss").values, shown.run.series("eval/loss").values
    assert shown.code == 0, shown.errors
    assert train[0] > 3.7 and train[-5:].mean() < 2.7
    assert held_out[0] > 3.5 and held_out[-1] < 2.7


def test_every_step_of_the_demo_is_stored(shown):
    """Each step has its loss, gradient norm, learning rate and time, in order and without a gap."""
    steps = shown.run.series("train/loss").steps.tolist()
    assert steps == list(range(len(steps)))
    for name in ("train/grad_norm", "train/lr"):
        assert shown.run.series(name).steps.tolist() == steps
    assert len(shown.run.series("train/step_time_sec")) >= len(steps) - 1
    assert shown.run.state == "finished"


def test_the_learning_rate_warms_up_and_comes_down(shown):
    """The highest rate is neither at the start nor at the end, and the last one is a small part of it."""
    rates = shown.run.series("train/lr").values
    assert 0 < rates.argmax() < len(rates) // 2
    assert rates[-1] < 0.2 * rates.max()


def test_the_parts_of_a_step_are_spans(shown):
    """Where the time of a step goes can be seen: data, forward, backward, optimizer."""
    names = [span.name for span in shown.run.spans()]
    steps = len(shown.run.series("train/loss"))
    assert all(names.count(name) >= steps for name in ("data", "forward", "backward", "optimizer"))


def test_samples_are_kept_as_text_and_as_a_table(shown):
    """At every evaluation the model writes a little, and both records of it are in the run."""
    evaluations = len(shown.run.series("eval/loss"))
    texts = [record.text for record in shown.run.records(kind="text")]
    rows = [row for table in shown.run.records(kind="table") for row in table.rows]
    assert evaluations >= 2 and len(texts) == len(rows) == evaluations
    assert [row["text"] for row in rows] == texts
    assert texts[-1].startswith("The captain looked at the sea and ")


def test_the_demo_keeps_to_its_time(tmp_path):
    """It ends at its deadline, however slow the machine is just now; the last evaluation and `finish` are extra."""
    began = time.perf_counter()
    assert demo(dir=tmp_path, seconds=2.0, sinks="none", out=io.StringIO()) == 0
    assert 1.0 < time.perf_counter() - began < 30.0


def test_the_config_tells_how_the_run_was_made(shown):
    """The hyperparameters and the number of steps are in the stored config."""
    assert {"lr", "batch", "context", "hidden", "steps", "parameters"} <= set(shown.run.config)


def test_the_demo_ends_with_a_loss_curve(shown):
    """A plot with both curves, drawn from the stored run."""
    assert re.search("[\u2801-\u28ff]", shown.text)
    assert re.search("⠒⠒ train/loss .* oo eval/loss", shown.text)


def test_the_demo_says_where_the_run_is_and_what_to_try(shown):
    """The path, a sample, and three commands that name this run."""
    path = str(shown.run.path)
    assert f"stored in {path}" in shown.text
    assert "The captain looked at the sea" in shown.text
    assert re.findall(r"^  chiplog (\w+) (\S+)", shown.text, re.MULTILINE) == [
        ("show", path),
        ("plot", path),
        ("export", path),
    ]


def test_no_line_is_wider_than_the_terminal(shown):
    """Plot and sample fit into eighty columns; only the path may be longer."""
    plain = [line for line in shown.text.splitlines() if str(shown.run.path) not in line]
    assert max(map(len, plain)) <= 80


def test_an_interrupted_demo_shows_what_there_is(tmp_path):
    """Ctrl-C during training ends the run as interrupted, with its curve and the exit code of an interrupt."""
    out = io.StringIO()

    class Interrupt:
        """A sink is the place where the test stands in the loop: the run has begun when it writes."""

        def write(self, batch):
            if not self.sent and any(getattr(record, "metrics", None) for record in batch):
                self.sent = True
                os.kill(os.getpid(), 2)

        def close(self):
            pass

        sent = False

    code = demo(dir=tmp_path, seconds=20.0, sinks=[Interrupt()], out=out)
    stored = chiplog.read(next((tmp_path / "demo").iterdir()))
    assert code == 130 and stored.state == "interrupted"
    assert "chiplog show" in out.getvalue()


def test_a_terminal_without_braille_gets_plain_characters(tmp_path):
    """What the output cannot encode is not written to it."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    assert demo(dir=tmp_path, seconds=0.5, sinks="none", out=out) == 0
    assert b"** train/loss" in raw.getvalue()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_demo_without_time_is_refused(tmp_path, seconds):
    """The message has the value, and nothing is stored."""
    with pytest.raises(ValueError, match="positive number of seconds, not"):
        demo(dir=tmp_path, seconds=seconds)
    assert not any(tmp_path.iterdir())
