"""Surogate's file: whole whenever it is read, whatever is written, with its fields in their order."""

from __future__ import annotations

import io
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import chiplog
from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger, log_file
from chiplog.frontends.surogate import logger as logger_
from chiplog.frontends.surogate.log_file import LogFile
from tests.faults.harness import count
from tests.frontends.surogate.logs import H100, STEP, everything, read
from tests.probes.stubs import Nvml
from tests.support.waiting import wait_for


def killed_while_writing(folder, size, times):
    """How many of the files of trainers that were killed while they logged records of this size parse."""
    code = f"""
    import time
    from chiplog.frontends.surogate import TrainingRunLogger
    logger = TrainingRunLogger("log.json", verbosity=-2, resume=True)
    for n in range(10**9):
        logger.log_message(n, str(n) + "x" * {size})
        time.sleep(0.0002)
    """
    (folder / "train.py").write_text(textwrap.dedent(code))
    generator, path, whole = random.Random(size), folder / "log.json", 0
    for _ in range(times):
        before = path.stat().st_size if path.exists() else 0
        victim = subprocess.Popen([sys.executable, "train.py"], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda before=before: path.exists() and path.stat().st_size > before + 10 * size, 60)
            time.sleep(generator.random() * 0.3)  # a moment nobody chose
        finally:
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
        try:
            read(path)
            whole += 1
        except ValueError:
            pass
    return whole


def test_33_the_file_is_whole_whenever_it_is_killed(tmp_path):
    """SIGKILL at random moments while records are written: the file parses every time, and resumed it goes on with
    everything that the journal has."""
    times = count(4, 60)
    assert killed_while_writing(tmp_path, 10, times) == times
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT, resume=True) as made:
        pass
    logged = [
        record.data["message"] for record in chiplog.read(made.run.dir).records(kind="event") if record.name == "info"
    ]
    assert [record["message"] for record in read(tmp_path / "log.json")] == logged
    assert len(logged) > 10 * times


def test_33_long_records_are_never_lost(tmp_path):
    """A write of many pages may be cut by a kill; then whoever resumes the run mends the file, and nothing is lost."""
    killed_while_writing(tmp_path, 20_000, count(2, 40))
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT, resume=True) as made:
        pass
    logged = [
        record.data["message"] for record in chiplog.read(made.run.dir).records(kind="event") if record.name == "info"
    ]
    assert [record["message"] for record in read(tmp_path / "log.json")] == logged


@pytest.mark.parametrize("text", ['a"b\n\\', "é→\u2028", "\x00\x1b[31m", "]}", "\ud800"])
def test_34_any_text_round_trips(tmp_path, text):
    """In options, messages, phases, names and the command line."""
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_cmd([text])
        made.log_options({"x": text})
        made.log_message(0, text)
        made.log_allocator({text: {"device": 1}})
        made.set_phase(text)
        made.log_step(0, *STEP)
    cmd, option, message, segments, step = read(tmp_path / "log.json")
    wanted = text.encode("utf-8", "backslashreplace").decode()
    assert [cmd["cmd"][0], option["value"], message["message"], segments["stats"][0]["name"], step["phase"]] == [
        wanted
    ] * 5


@pytest.mark.parametrize(("value", "word"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_34_numbers_that_json_cannot_say(tmp_path, value, word):
    """Strings everywhere, the epoch and options too; the series have the numbers."""
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_options({"x": value})
        made.log_step(0, value, 16384, 156, value, value, value, moe_aux_loss=value)
        made.log_eval(0, value, 1, 1, value)
        made.log_moe_stats(0, value, value, value, value)
    option, step, evaluation, moe = read(tmp_path / "log.json")
    assert option["value"] == word
    assert {step[name] for name in ("epoch", "norm", "loss", "lr", "moe_aux_loss")} == {word}
    assert {evaluation["epoch"], evaluation["loss"], moe["aux_loss"], moe["load_imbalance"]} == {word}
    assert str(chiplog.read(made.run.dir).series("train/loss").values.tolist()) == f"[{word}]"


def killed_after(folder, moment):
    """The number of the last call that had returned when a trainer was killed, and the steps in its file."""
    code = """
    import os
    from chiplog.frontends.surogate import TrainingRunLogger
    logger = TrainingRunLogger("output/training.json")
    for n in range(10**9):
        logger.log_step(n, 0.125, 16384, 156, 0.1234, 2.5, 2e-4)
        os.write(2, b"%d\\n" % n)
    """
    (folder / "train.py").write_text(textwrap.dedent(code))
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        victim = subprocess.Popen([sys.executable, "train.py"], cwd=folder, stdout=out, stderr=err)
        try:
            wait_for(lambda: (folder / "err").stat().st_size > moment, 60)
        finally:
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
    returned = (folder / "err").read_text().rpartition("\n")[0].splitlines()
    return int(returned[-1]), [record["step"] for record in read(folder / "output" / "training.json")]


@pytest.mark.parametrize("moment", [0, 5_000])
def test_33_a_killed_trainer_has_left_every_record_in_the_file(tmp_path, moment):
    """From the very first call on, with default settings, and before anybody opens the path again."""
    last, steps = killed_after(tmp_path, moment)
    assert steps == list(range(len(steps))) and len(steps) in (last + 1, last + 2), (
        "the last call may not have returned"
    )


def test_the_first_call_finds_a_file_that_took_long_to_open(tmp_path, monkeypatch):
    """On a machine so busy that the thread of the file starts late."""
    restore, busy = LogFile.restore, threading.Event()
    threading.Timer(1.5, busy.set).start()
    monkeypatch.setattr(LogFile, "restore", lambda self, state: busy.wait() and restore(self, state))
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_step(0, *STEP)
        assert [record["step"] for record in read(tmp_path / "log.json")] == [0]


def test_a_file_that_cannot_be_opened_is_not_waited_for(tmp_path, monkeypatch, capsys):
    """The run goes on without it at once."""
    monkeypatch.setattr(logger_, "START", 600.0)
    monkeypatch.setattr(LogFile, "restore", lambda self, state: os.open(tmp_path / "no" / "file", os.O_RDONLY))
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_step(0, *STEP)
    assert "sink 'log' failed" in capsys.readouterr().err


def test_a_record_is_in_the_file_when_its_call_returns(logger, tmp_path):
    """Nothing has to be flushed, and the file is whole each time."""
    for step in range(20):
        logger.log_step(step, *STEP)
        logger.log_eval(step, 1.5, 32768, 234, 3.5)
        assert len(read(tmp_path / "log.json")) == 2 * step + 2


def test_records_of_several_threads_are_there_once(logger, tmp_path):
    """Each of them, those of one thread in their order."""

    def log(place):
        for number in range(100):
            logger.log_message(number, f"{place} {number}")

    threads = [threading.Thread(target=log, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logger.close()
    found = [tuple(map(int, record["message"].split())) for record in read(tmp_path / "log.json")]
    assert sorted(found) == [(place, number) for place in range(4) for number in range(100)]


def test_a_disk_that_refuses_gets_everything_later(tmp_path, capsys):
    """Training goes on; when the place can be written, the file has all records once, in their order."""
    folder = tmp_path / "out"
    folder.touch()  # no directory can be made there
    made = TrainingRunLogger(folder / "log.json", verbosity=LogVerbosity.SILENT)
    made.log_message(0, "a")
    made.log_message(1, "b")
    folder.unlink()
    assert wait_for(made.flush, 60)
    made.log_message(2, "c")
    made.close()
    assert [record["message"] for record in read(folder / "log.json")] == ["a", "b", "c"]
    assert "sink 'log' failed" in capsys.readouterr().err


def test_a_slow_disk_is_waited_for_once(tmp_path, monkeypatch):
    """The next records are left to the delivery, until it is quick again."""
    made = TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT)
    pwrite, slow = os.pwrite, threading.Event()
    slow.set()

    def wait(*args):
        if slow.is_set():
            time.sleep(2 * log_file.SLOW)
        return pwrite(*args)

    monkeypatch.setattr(os, "pwrite", wait)
    took = []
    for number in range(5):
        before = time.monotonic()
        made.log_message(number, "x")
        took.append(time.monotonic() - before)
    assert took[0] >= log_file.SLOW and sum(took[1:]) < 2 * log_file.SLOW, took
    slow.clear()
    wait_for(lambda: len(read(tmp_path / "log.json")) == 5, 30)
    made.flush()
    made.log_message(5, "x")
    assert [record["step"] for record in read(tmp_path / "log.json")] == list(range(6))
    made.close()


def test_36_the_layout_of_the_file(logger, tmp_path):
    """One object a line, two spaces in front, closed after every record."""
    for step in range(2):
        logger.log_step(step, *STEP)
        assert logger.flush()
        lines = (tmp_path / "log.json").read_text().split("\n")
        assert lines[0] == "[" and lines[-2:] == ["]", ""]
        assert all(line.startswith('  {"log": "step", "time": "20') for line in lines[1:-2])
        assert len(lines) == step + 4


def test_32_the_file_has_everything_at_any_verbosity(tmp_path):
    """What is not shown is kept."""
    for verbosity in LogVerbosity:
        path = tmp_path / f"{verbosity.name}.json"
        with TrainingRunLogger(path, verbosity=verbosity, stream=io.StringIO()) as made:
            everything(made)
        assert len(read(path)) == 11


def test_the_file_is_complete_when_the_logger_is_gone(tmp_path):
    """The original has no `close`: the end of the object is enough, and so is the end of the program."""
    made = TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT)
    made.log_step(1, *STEP)
    del made
    assert len(read(tmp_path / "log.json")) == 1
    code = "from chiplog.frontends.surogate import TrainingRunLogger as L\nl = L('b.json')\nl.log_message(1, 'x')\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "x\n"
    assert len(read(tmp_path / "b.json")) == 1


def test_a_probe_fills_the_file(tmp_path):
    """`probes="nvidia"`: the model of each GPU at the start, and its telemetry."""
    nvml = Nvml()
    nvml.reset(2)
    with TrainingRunLogger(
        tmp_path / "log.json", verbosity=LogVerbosity.SILENT, probes={"nvidia": {"interval": 0.02}}
    ) as made:
        wait_for(lambda: "gpu/1/pcie_rx" in chiplog.read(made.run.dir).names(), 30)
    found = read(tmp_path / "log.json")
    models = sorted((record for record in found if record["log"] == "gpu-model"), key=lambda record: record["id"])
    assert [(model["id"], model["name"], model["sm_count"]) for model in models] == [(0, H100, 132), (1, H100, 132)]
    samples = [record for record in found if record["log"] == "gpu"]
    assert {sample["id"] for sample in samples} == {0, 1}
    assert samples[0]["clock"] == 1800 and samples[0]["fan"] == 0 and samples[0]["pcie_rx"] is None
