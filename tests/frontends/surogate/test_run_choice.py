"""Which run a log file belongs to."""

from __future__ import annotations

import chiplog
from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger
from tests.frontends.surogate.logs import STEP, read


def test_35_another_training_into_the_same_file_is_another_run(tmp_path, capsys):
    """It has a file of its own; the one of the first is put aside, and both runs are there."""
    runs = []
    for attempt in range(3):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
            made.log_step(attempt, *STEP)
        runs.append(made.run)
    names = ("log.1.json", "log.2.json", "log.json")
    assert [[record["step"] for record in read(tmp_path / name)] for name in names] == [[0], [1], [2]]
    assert len({run.id for run in runs}) == 3 and [len(chiplog.read(run.dir).attempts) for run in runs] == [1, 1, 1]
    assert capsys.readouterr().err.count("log.json already exists; the old file is now log.") == 2


def test_35_resuming_is_asked_for(tmp_path):
    """`resume=True` goes on with the last run of the file, as another attempt of it."""
    for attempt in range(2):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as other:
            other.log_step(attempt, *STEP)
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT, resume=True) as made:
        made.log_step(2, *STEP)
    assert made.run.id == other.run.id and len(chiplog.read(made.run.dir).attempts) == 2
    assert [record["step"] for record in read(tmp_path / "log.json")] == [1, 2]


def test_35_an_older_run_gets_its_file_back(tmp_path):
    """Resumed by its token, it writes its own records, and those of the newer one stay beside them."""
    tokens = []
    for attempt in range(2):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
            made.log_step(attempt, *STEP)
        tokens.append(made.run.resume_token())
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT, resume=tokens[0]) as made:
        made.log_step(2, *STEP)
    assert [record["step"] for record in read(tmp_path / "log.json")] == [0, 2]
    assert [record["step"] for record in read(tmp_path / "log.2.json")] == [1]


def test_35_a_file_of_the_original_goes_on(tmp_path, capsys):
    """Whoever wrote the array, if resuming is asked for; there is no run of ours then, which is said."""
    path = tmp_path / "log.json"
    path.write_text('[\n  {"log": "step", "step": 7, "loss": "nan"}\n]\n')
    for step in (8, 9):
        with TrainingRunLogger(path, verbosity=LogVerbosity.SILENT, resume=True) as made:
            made.log_message(step, "on")
    assert [record["step"] for record in read(path)] == [7, 8, 9]
    assert capsys.readouterr().err.count("there is no run of") == 1
