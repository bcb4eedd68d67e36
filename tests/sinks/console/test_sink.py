"""The console."""

import io
import math
import re

import pytest

from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import Alert, Attempt, Eval, Event, Finish, Step
from chiplog.sinks.console import sink as console
from chiplog.sinks.console.sink import SECOND, Console, LineRate
from chiplog.sinks.console.statistics_wait import PATIENCE, StatisticsWait
from chiplog.sinks.shared.rows import Row

T = 1763208000_000000000
MS = 1_000_000


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and counts its writes."""

    writes = 0

    def isatty(self):
        return True

    def write(self, text):
        self.writes += 1
        return super().write(text)


def step(number, metrics, at=None, every=156 * MS):
    return Step(0, T + number * every if at is None else at, number, metrics)


def lines(records, *, environ=None, stream=None, **options):
    """What stands on the console after each record came in its own batch; the last line is about the end."""
    stream = io.StringIO() if stream is None else stream
    sink = Console(stream, environ=environ or {}, **options)
    for record in records:
        sink.write([record])
    sink.write([])
    sink.close()
    return stream.getvalue().splitlines()


FULL = {
    "train/loss": 2.3456,
    "train/grad_norm": 0.1234,
    "train/lr": 3e-4,
    "train/tokens_per_sec": 125_300.0,
    "train/step_time_sec": 0.156,
    "train/tokens": 19547,
}


def test_a_step_is_one_aligned_line():
    """Loss, norm, rate, speed, time and the time left stand where they always stand."""
    records = [
        step(99, {**FULL, "train/loss": 2.5}, at=T, every=0),
        step(100, FULL, at=T + 11_571_428_571),
        step(20000, {**FULL, "train/loss": 12.5, "train/grad_norm": 0.25}, at=T),
    ]
    assert lines(records, config={"total_steps": 800})[:3] == [
        r":: step      99 [ 12.4%]   loss  2.5000 | norm  0.1234 | lr 3.0e-04 | 125.3k tok/s |   156 ms | eta 01m49s",
        r":: step     100 [ 12.5%] \ loss  2.3456 | norm  0.1234 | lr 3.0e-04 | 125.3k tok/s |   156 ms | eta 02h15m",
        r":: step   20000 [100.0%] / loss 12.5000 | norm  0.2500 | lr 3.0e-04 | 125.3k tok/s |   156 ms",
    ]


def test_without_a_total_there_is_no_share_and_no_eta():
    """What is not known is not shown."""
    assert lines([step(100, {"loss": 2.3456})])[0] == ":: step     100   loss  2.3456"


@pytest.mark.parametrize("name", ["total_steps", "max_steps", "num_steps", "steps", "max_iters"])
def test_the_total_comes_from_the_config(name):
    """Whatever a config calls it, at the start or later; -1 and True are not totals."""
    assert lines([step(100, {"loss": 1.0})], config={name: 800})[0].startswith(":: step     100 [ 12.5%] ")
    later = [Event(0, T, "config", {name: 800}), step(100, {"loss": 1.0})]
    assert lines(later, config={"max_steps": -1, "steps": True})[0].startswith(":: step     100 [ 12.5%] ")


@pytest.mark.parametrize("name", ["train/loss", "train_loss", "Loss/train", "train_loss_step"])
def test_the_loss_has_its_place_by_whatever_name(name):
    """With its trend, and an evaluation has its gap to it."""
    shown = lines([step(0, {name: 2.0}), step(1, {name: 1.0}), Eval(0, T, step=1, metrics={"loss": 1.5})])
    assert "\\ loss  1.0000" in shown[1] and shown[2].endswith("loss  1.5000 | gap +0.5000"), shown


def test_a_plan_is_better_than_a_config():
    """The event `plan` says how many steps there will be, whatever a config says before or after."""
    plan, config = Event(0, T, "plan", {"steps": 400}), Event(0, T, "config", {"steps": 800})
    assert "[ 25.0%]" in lines([plan, config, step(100, {"loss": 1.0})], config={"steps": 800})[0]


def test_a_later_plan_changes_no_earlier_share():
    """Of two epochs over one loader, the first ends at 100 %, although its last row waits for more of its step."""
    epochs = [
        [Event(0, T, "plan", {"steps": 2 * n}), *(step(number, {"loss": 1.0}) for number in (2 * n - 2, 2 * n - 1))]
        for n in (1, 2)
    ]
    shares = [re.findall(r"\[ *([\d.]+)%\]", line) for line in lines([record for one in epochs for record in one])]
    assert shares[:4] == [["50.0"], ["100.0"], ["75.0"], ["100.0"]]


def test_a_loop_from_zero_ends_at_a_hundred_percent():
    """With steps 0, 1, 2, 3 of 4, the last one is the end."""
    shown = lines([step(number, {"loss": 1.0}) for number in range(4)], config={"steps": 4})
    assert [line[15:25].strip() for line in shown[:4]] == ["[ 25.0%]", "[ 50.0%]", "[ 75.0%]", "[100.0%]"]


def test_several_calls_for_a_step_are_one_line():
    """What is logged for one step in several calls stands in one line."""
    shown = lines([step(1, {"loss": 1.0}), step(1, {"lr": 0.1}), step(2, {"loss": 1.0})])
    assert shown[0] == ":: step       1   loss  1.0000 | lr 1.0e-01"
    assert len(shown) == 3


def test_statistics_across_ranks_are_no_second_line():
    """They join the line of their step, or are left out; time, share, time left and count are those of the steps."""

    def across(number, at):
        return Step(0, at, number, {"loss/mean": 1.5, "train/step_time_sec/mean": 0.4}, across=True)

    def run(*late):
        rows = [step(number, {"loss": 1.0, "tokens": 41}, every=410 * MS) for number in range(12)]
        behind = [across(number, rows[min(number + 2, 11)].time + 91 * MS) for number in late]
        records = sorted([*rows, *behind], key=lambda record: record.time)
        return lines([*records, Eval(0, T, 11, {"loss/mean": 1.0}, across=True)], config={"steps": 12})

    assert run(*range(10)) == run()
    assert run()[-2].startswith(":: step      11 [100.0%]   loss  1.0000 |    100 tok/s |   410 ms")
    assert len(run()) == 13 and run()[-1].startswith("== 12 steps in")
    shown = lines([step(1, {"loss": 1.0}), across(1, T), step(2, {"loss": 1.0})])
    assert shown[0] == ":: step       1   loss  1.0000"


def test_a_line_waits_for_its_statistics_across_ranks():
    """Then it has the mean loss, the longest time and the rate of all ranks; later lines without them estimate it."""
    own = {"loss": 1.0, "train/step_time_sec": 0.2, "train/tokens_per_sec": 5000.0}
    across = {"loss/mean": 1.5, "loss/std": 0.5, "train/step_time_sec/max": 0.4, "train/tokens_per_sec/sum": 7500.0}
    for mode, rows in {
        "async": [step(1, own), step(2, own), Step(0, T, 1, across, across=True), step(3, own)],
        "sync": [step(1, own | across | {"ranks/skew": 1.0}), step(2, own)],
    }.items():
        shown = lines([Event(0, T, "ranks", {"statistics": mode}), *rows])
        assert shown[0] == ":: step       1   loss  1.0000, mean  1.5000 |   7.5k tok/s |   400 ms"
        assert shown[1] == ":: step       2   loss  1.0000 |   7.5k tok/s |   200 ms"


def test_a_line_does_not_wait_for_long():
    """After three steps without statistics lines are shown at once, until there are some again."""
    now = [0.0]
    wait = StatisticsWait(lambda: now[0])
    wait.expect("async")
    rows = [Row(number, T, {"loss": 1.0}) for number in range(9)]
    assert [wait.add(row) for row in rows[:3]] == [[], [], []]
    now[0] += PATIENCE
    assert [one.row.step for one in wait.ready()] == [0, 1, 2] and not wait.active
    assert [one.row.step for one in wait.add(rows[3])] == [3]
    assert not wait.join(2, {}) and wait.active and wait.add(rows[4]) == []
    assert wait.join(4, {"loss/mean": 1.0}) and [one.row.step for one in wait.ready()] == [4]


def test_the_end_of_a_step_is_no_second_line():
    """The time of a step that comes after its line gets none of its own; a step with nothing else does."""
    timing = {"train/step_time_sec": 0.25, "train/tokens": 1000, "train/tokens_per_sec": 4000.0}
    stream = io.StringIO()
    sink = Console(stream, environ={})
    for batch in ([step(1, {"loss": 1.0})], [], [step(1, timing)], [], [step(2, timing)], []):
        sink.write(batch)
    assert stream.getvalue().splitlines() == [
        ":: step       1   loss  1.0000",
        ":: step       2 |   4.0k tok/s |   250 ms",
    ]


def test_the_arrow_shows_the_trend():
    r"""A loss below the mean of the last ones is falling \, above it rising /, and otherwise there is no arrow."""
    losses = [2.0, 1.0, 3.0, 2.0, math.nan, 1.0]
    shown = lines([step(number, {"loss": loss}) for number, loss in enumerate(losses)])
    assert [line[16] for line in shown[:-1]] == [" ", "\\", "/", " ", " ", "\\"]
    assert "loss     nan" in shown[4]


def test_a_spike_of_the_norm_is_marked():
    """More than five times the mean of the finite past, and what is not a number, gets a !; the first one never."""
    norms = [1.0, math.inf, 5.0, 15.1, 1.0, 0.5, math.nan]
    shown = lines([step(number, {"grad_norm": norm}) for number, norm in enumerate(norms)])
    assert [line[line.index("|") + 1] for line in shown[:-1]] == [" ", "!", " ", "!", " ", " ", "!"]
    assert shown[3] == ":: step       3 |!norm 15.1000 |   156 ms"


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"train/loss": 1.5}, "loss  1.5000"),
        ({"norm": 0.5}, "norm  0.5000"),
        ({"learning_rate": 0.001}, "lr 1.0e-03"),
        ({"tps": 950.0}, "   950 tok/s"),
        ({"tokens_per_sec": 1_250_000}, "  1.2M tok/s"),
        ({"train/step_time_sec": 0.00156}, " 1.56 ms"),
        ({"train/step_time_sec": 12.0}, "12000 ms"),
        ({"loss": 1e-7}, "loss 1.0e-07"),
        ({"loss": 0}, "loss  0.0000"),
        ({"loss": 2**70}, "loss 1.2e+21"),
        ({"loss": 10**400}, "loss    huge"),
        ({"loss": "text"}, "loss    text"),
        ({"loss": -math.inf}, "loss    -inf"),
        ({"accuracy": 0.91234567}, "| accuracy 0.9123"),
        ({"train/accuracy": True}, "| accuracy true"),
        ({"count": 123456}, "| count 123456"),
        ({"count": 3 * 10**9}, "| count 3.0B"),
    ],
)
def test_the_names_and_values_people_use(metrics, text):
    """Each usual name finds its column, and any value its form."""
    line = lines([step(1, metrics)])[0]
    assert line.startswith(":: step       1 ")
    assert line.endswith(text)


def test_speed_is_worked_out_where_it_is_not_logged():
    """Tokens and time give tokens a second; the time comes from the clock where it is not logged."""
    assert lines([step(1, {"tokens": 1000, "step_time_sec": 0.5})])[0].endswith("|   2.0k tok/s |   500 ms")
    by_clock = lines([step(1, {"tokens": 1000}, at=T), step(2, {"tokens": 1000}, at=T + 250 * MS)])
    assert by_clock[0] == ":: step       1"
    assert by_clock[1] == ":: step       2 |   4.0k tok/s |   250 ms"
    # Of which steps are these the tokens? Only the time is certain.
    assert lines([step(1, {"tokens": 1000}, at=T), step(11, {"tokens": 1000}, at=T + 1000 * MS)])[1].endswith(
        ":: step      11 |   100 ms"
    )


def test_a_step_lasts_until_the_next_one_begins():
    """By the clock, later calls for a step do not shorten the time to the next."""
    records = [step(1, {"loss": 1.0}, at=T), step(1, {"loss": 1.0}, at=T + 90 * MS)]
    assert lines([*records, step(2, {"loss": 1.0}, at=T + 100 * MS)])[2] == ":: step       2   loss  1.0000 |   100 ms"


def test_a_new_attempt_does_not_count_the_time_between():
    """The first step after a restart has no time of its own."""
    attempt = Attempt(0, T, 2, "launch", 0, 1, "host", 1, 0, "process", "0.1")
    shown = lines([step(1, {"loss": 1.0}), attempt, step(2, {"loss": 0.5}, at=T + 10**13)], config={"steps": 10})
    assert shown[1] == ":: step       2 [ 20.0%] \\ loss  0.5000"


def test_what_has_no_column_stands_behind_up_to_the_width():
    """Other names follow as they come; those that do not fit are counted."""
    metrics = {"loss": 1.0, **{f"metric_{place}": place / 8 for place in range(9)}}
    line = lines([step(1, metrics)], width=80)[0]
    assert line == ":: step       1   loss  1.0000 | metric_0 0 | metric_1 0.125 | metric_2 0.25 +6"
    assert lines([step(1, metrics)], width=200)[0].endswith("| metric_8 1")


def test_a_narrow_terminal_shows_what_matters_most():
    """Columns go one by one, the least important first, and a line is never wider than the terminal."""
    wide = lines([step(1, FULL)], width=120)[0]
    assert lines([step(1, FULL)], width=len(wide))[0] == wide
    assert lines([step(1, FULL)], width=80)[0] == (
        ":: step       1   loss  2.3456 | norm  0.1234 | 125.3k tok/s |   156 ms +1"
    )
    assert lines([step(1, FULL)], width=50)[0] == ":: step       1   loss  2.3456 | 125.3k tok/s +3"
    for width in range(1, 120):
        for terminal in (io.StringIO, Terminal):
            shown = lines([step(1, FULL)], width=width, stream=terminal(), environ={"NO_COLOR": "1"})
            assert len(shown[0].split("\r")[-1]) <= width


def test_wide_characters_take_two_places():
    """A line of Chinese names is cut where it is full on the screen."""
    line = lines([step(1, {"损失函数": 1.0, "学习率": 2.0})], width=32)[0]
    assert line == ":: step       1 | 损失函数 1 +1"


def test_an_eval_shows_its_gap_to_training():
    """The gap is to the training loss of its step, or the newest before it, and NaN does not spoil it."""
    records = [
        step(1, {"loss": 4.0}),
        step(2, {"loss": 2.1111}),
        step(3, {"loss": math.nan}),
        Eval(0, T, 3, {"loss": 2.1234, "tokens_per_sec": 145_200.0, "time_sec": 0.234, "ppl": 8.36}),
        Eval(0, T, 3, {"eval/loss": 2.0}),
        step(4, {"loss": 1.0}),
        Eval(0, T, 4, {"accuracy": 0.5}),
    ]
    shown = [line for line in lines(records) if not line.startswith(":: step       1")]
    assert shown[2] == ">> eval     loss  2.1234 | gap +0.0123 | 145.2k tok/s |   234 ms | ppl 8.36"
    assert shown[3] == ">> eval     loss  2.0000 | gap -0.1111"
    assert shown[5] == ">> eval     | accuracy 0.5"


def test_an_alert_stands_under_its_step():
    """An alert is a line of its own with its level, after the step that raised it."""
    spike = Alert(0, T, "loss spike", "warn", "9 is 5 x the mean", step=7)
    assert lines([step(7, {"loss": 9.0}), spike, Alert(0, T, "x", "error")])[:3] == [
        ":: step       7   loss  9.0000",
        "!! warn  loss spike - 9 is 5 x the mean (step 7)",
        "!! error x",
    ]


def test_evals_and_alerts_show_the_step_they_belong_to():
    """A step that was left out for the rate is shown after all when something happens at it."""
    stream = io.StringIO()
    sink = Console(stream, environ={}, rate=1)
    sink.write(
        [*(step(number, {"loss": 1.0}, every=0) for number in range(5)), Alert(0, T, "x", text="at step 4", step=4)]
    )
    assert stream.getvalue().splitlines()[1:] == [
        ":: step       4   loss  1.0000 | 3 not shown",
        "!! warn  x - at step 4",
    ]


def test_only_the_dataset_event_is_shown():
    """Datasets are one line; other events are quiet."""
    records = [
        Event(0, T, "dataset", {"split": "train", "files": 3, "tokens": 10**9, "paths": ["a"]}),
        Event(0, T, "gpu", {"id": 0, "power": 350}),
    ]
    assert lines(records) == ["-- dataset  split train files 3 tokens 1.0B"]


def test_the_last_line_says_how_it_ended_and_where_it_is():
    """At the end: how many steps, how long, how, and the place of the run; only once."""
    stream = io.StringIO()
    sink = Console(stream, environ={}, place="runs/tiny-lm/abc")
    sink.write([Event(0, T, "plan", {}), *(step(number, {"loss": 1.0}, at=T) for number in range(1234))])
    sink.write([Finish(0, T + 125 * 10**9, "failed", "ValueError: bad\x1b[2J")])
    sink.close()
    sink.close()
    shown = stream.getvalue().splitlines()
    assert shown[-1] == "== 1,234 steps in 02m05s | failed: ValueError: bad\\x1b[2J | runs/tiny-lm/abc"
    assert sum(line.startswith("==") for line in shown) == 1


@pytest.mark.parametrize(
    ("steps", "count"),
    [([0, 5, 10, 11], "12 steps"), ([100, 110], "11 steps"), ([0, 1, 2, 0, 1, 2], "3 steps"), ([0.1, 0.2], "2 steps")],
)
def test_the_last_line_counts_steps_and_not_rows(steps, count):
    """Those between two rows too, and none twice for values that came late; fractions are counted as they come."""
    last = lines([step(number, {"loss": 1.0}, at=T) for number in steps])[-1]
    assert last.startswith(f"== {count} in ")


def test_text_of_the_run_cannot_steer_the_terminal():
    """Control characters, bidi controls and lone surrogates in names, values and titles are shown as escapes."""
    evil = "a\x1b]0;x\x07\r\n\u202e\ud800"
    records = [
        step(1, {evil: 1, "loss": evil, "text": evil}),
        Eval(0, T, 1, {evil: 1}),
        Alert(0, T, evil, evil, evil),
        Event(0, T, "dataset", {evil: evil}),
        Finish(0, T, evil, evil),
    ]
    for stream in (io.StringIO(), Terminal()):
        shown = lines(records, stream=stream, width=300, environ={"NO_COLOR": "1"}, place=evil)
        assert len(shown) == 5
        assert all(line.isprintable() for line in shown)
        assert all("\\x1b" in line for line in shown)


def test_colour_only_on_a_terminal():
    """Escape codes are written to a terminal, and not to a file, with NO_COLOR, or to a dumb terminal."""
    records = [step(1, FULL), step(2, FULL), Eval(0, T, 2, {"loss": 1.0}), Alert(0, T, "x")]

    def text(stream, environ):
        lines(records, stream=stream, environ=environ, config={"steps": 9})
        return stream.getvalue()

    assert "\x1b[1mloss  2.3456\x1b[0m" in text(Terminal(), {})
    assert "\x1b[33m!! warn \x1b[0m x" in text(Terminal(), {"NO_COLOR": ""})
    assert "\x1b" not in text(io.StringIO(), {})
    assert "\x1b" not in text(Terminal(), {"NO_COLOR": "1"})
    assert "\x1b" not in text(Terminal(), {"TERM": "dumb"})


def test_a_terminal_has_a_progress_bar():
    """The bar is rewritten in place, wiped before other lines and gone at the end."""
    stream = Terminal()
    sink = Console(stream, environ={"NO_COLOR": "1"}, config={"steps": 4})
    sink.write([step(1, {"loss": 1.0}, at=T)])
    sink.write([])
    bar = "━" * 7 + "─" * 23 + "  25.0%"
    assert stream.getvalue() == f":: step       1 [ 25.0%]   loss  1.0000\n{bar}"
    stream.seek(0)
    stream.truncate()
    sink.write([step(2, {"loss": 1.0}, at=T + 10**9), step(3, {"loss": 1.0}, at=T + 2 * 10**9)])
    wipe = "\r" + " " * len(bar) + "\r"
    assert stream.getvalue().startswith(wipe + ":: step       2 [ 50.0%]")
    assert stream.getvalue().endswith("━" * 15 + "─" * 15 + "  50.0% eta 00m02s")
    sink.close()
    assert stream.getvalue().split("\r")[-1].splitlines()[-1].startswith("== 3 steps")


@pytest.mark.parametrize(("stream", "config"), [(io.StringIO, {"steps": 4}), (Terminal, {})])
def test_no_bar_elsewhere(stream, config):
    """No bar in a file, and none while the total is unknown."""
    target = stream()
    lines([step(1, {"loss": 1.0}), step(2, {"loss": 1.0})], stream=target, config=config)
    assert "\r" not in target.getvalue()


def test_a_batch_is_one_write():
    """However many lines a batch gives, the stream is written once."""
    stream = Terminal()
    sink = Console(stream, environ={}, config={"steps": 100})
    sink.write([step(number, FULL) for number in range(15)])
    assert stream.writes == 1
    sink.write([])
    assert stream.writes == 2
    sink.write([])
    assert stream.writes == 2


def test_too_many_steps_are_counted_instead_of_shown():
    """After the first ones at most 20 lines a second; the next line says how many were left out; the last one shows."""
    fast = [step(number, {"loss": 1.0}, every=1 * MS) for number in range(2000)]
    shown = lines(fast)[:-1]
    assert 55 <= len(shown) <= 61
    assert [line.split()[2] for line in shown[:20]] == [str(number) for number in range(20)]
    assert shown[-1].startswith(":: step    1999 ")
    left_out = sum(int(line.split(" | ")[-1].split()[0]) for line in shown if line.endswith(" not shown"))
    assert left_out + len(shown) == 2000
    assert shown[30].endswith("   loss  1.0000 |  1.00 ms | 49 not shown")


def test_lines_with_metrics_come_before_those_with_times_alone() -> None:
    """Of steps that log every tenth time, those have a line; a slow one has its line although it logged nothing."""
    rows = [
        step(number, {"train/step_time_sec": 0.1, **({} if number % 10 else {"loss": 1.0})}, every=100 * MS)
        for number in range(50)
    ]
    shown = lines(rows)
    assert [line.split()[2] for line in shown[:6]] == ["0", "10", "20", "30", "40", "49"], shown
    assert all("9 not shown" in line for line in shown[1:5])
    slow = [
        step(number, {"train/step_time_sec": 3.0, **({} if number else {"loss": 1.0})}, every=3 * SECOND)
        for number in range(3)
    ]
    assert [line.split()[2] for line in lines(slow)[:3]] == ["0", "1", "2"]


def test_all_steps_are_shown_without_a_rate():
    """With rate=None nothing is left out, and a slow run never loses a line."""
    fast = [step(number, {"loss": 1.0}, every=1) for number in range(500)]
    assert len(lines(fast, rate=None)) == 501
    slow = [step(number, {"loss": 1.0}, every=50 * MS) for number in range(500)]
    assert len(lines(slow)) == 501


def test_an_idle_moment_shows_the_newest_step():
    """When nothing new comes, the line on the screen is where the run is."""
    stream = io.StringIO()
    sink = Console(stream, environ={}, rate=1)
    sink.write([step(number, {"loss": 1.0}, every=0) for number in range(5)])
    sink.write([])
    assert stream.getvalue().splitlines() == [
        ":: step       0   loss  1.0000",
        ":: step       4   loss  1.0000 | 3 not shown",
    ]


def test_a_stream_that_takes_no_text_is_nobodys_problem(capsys):
    """A closed stream, none at all, and one that cannot say everything: no exception, and one word about it."""
    closed = io.StringIO()
    sink = Console(closed, environ={})
    closed.close()
    for target in (sink, Console(None, environ={})):
        target.write([step(1, FULL)])
        target.write([])
        target.close()
    assert capsys.readouterr().err.count("the console cannot be written") <= 1
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(ascii_only, environ={}, place="é").close()
    assert ascii_only.buffer.getvalue() == b"== 0 steps in 00m00s | \\xe9\n"


def test_the_default_one_writes_to_stdout(tmp_path, capsys):
    """open_sink takes the place and the config from the identity, and the width from the environment it is given."""
    sink = console.open_sink(Identity("p", "r", tmp_path, "n", "l", config={"steps": 4}), {"COLUMNS": "60"})
    assert isinstance(sink, Sink)
    sink.write([step(1, FULL)])
    sink.close()
    out = capsys.readouterr().out.splitlines()
    assert out == [
        r":: step       1 [ 25.0%]   loss  2.3456 | 125.3k tok/s +3",
        f"== 1 step in 00m00s | {tmp_path}",
    ]


def test_a_loss_of_another_rank_is_shown_by_its_mean() -> None:
    """Rank 0 logs something else; the line of the step has the mean of the ranks that have a loss."""
    behind = Step(1, T, 1, {"loss/mean": 0.5}, across=True)
    assert "loss  0.5000" in lines([step(1, {"mem": 1.0}), behind, step(2, {"mem": 1.0})])[0]


def test_a_line_has_no_statistics_of_what_it_does_not_show():
    """With `meter(log_every=5)` a row has those of the steps between; only the loss is worth a place."""
    row = {"loss": 1.0, "train/interval_steps": 5, "train/step_time_sec": 0.2, "train/step_time_sec/mean": 0.2}
    assert lines([step(1, row)])[0] == ":: step       1   loss  1.0000 |   200 ms"


def test_lines_come_at_the_rate_on_average() -> None:
    """A hundred lines per second for ten seconds, at two per second: about twenty."""
    rate = LineRate(2.0)
    shown = [number for number in range(1000) if rate.allows(number * SECOND // 100)]
    assert 20 <= len(shown) <= 22


def test_lines_for_one_second_come_at_once() -> None:
    """A burst after a pause is shown as far as the rate allows."""
    rate = LineRate(4.0)
    assert [rate.allows(10 * SECOND) for _ in range(6)] == [True, True, True, True, False, False]


def test_a_clock_that_goes_back_does_not_stop_the_lines() -> None:
    """After a correction of the clock, the next line is shown."""
    rate = LineRate(1.0)
    assert rate.allows(1000 * SECOND)
    assert rate.allows(10 * SECOND)


def test_without_a_rate_every_line_is_shown() -> None:
    """None and zero both mean no limit."""
    for no_limit in (None, 0.0):
        rate = LineRate(no_limit)
        assert all(rate.allows(5) for _ in range(100))
