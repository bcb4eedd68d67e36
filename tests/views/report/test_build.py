"""The report, and the documents it is made of."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import chiplog
from chiplog.core import records
from chiplog.views.report.build import Ends, report
from chiplog.views.report.document import Document, Grid, Pairs, Section
from chiplog.views.report.html import to_html
from chiplog.views.report.markdown import to_markdown
from chiplog.views.report.text import to_text
from tests.support.reports import section

EVIL = "</td><script>alert(1)</script> | `x` **b** [l](javascript:1) \x1b[31m"


@pytest.fixture
def stored() -> chiplog.Stored:
    """A run with something of everything."""
    with chiplog.init(project="tiny-lm", name="a try", id="first", config={"lr": 3e-4, "m": {"api_key": "hush"}}, sinks="none") as run:  # fmt: skip
        for step in range(60):
            run.log({"train/loss": 3.0 / (step + 1), "train/acc": step / 60, "train/tokens_per_sec": 1000.0}, step=step)
        run.log({"train/loss": float("nan"), "goodput/fraction": 0.97, "moe/load_cv": 0.4}, step=60)
        run.log({"moe/load": chiplog.Matrix([[1, 2, 3], [4, 5, 6]])}, step=60)
        run.event("gpu", id=0, power=350.5)
        run.eval({"loss": 2.5}, step=30)
        run.alert("too slow", text="by far", step=31, took_sec=12.5)
        run.log({"sample": chiplog.Text("The sea\nwas calm.")}, step=60)
        run.table("samples", [{"prompt": "a", "answer": "b"}])
    return chiplog.read(run.dir)


def test_all_is_in_it(stored: chiplog.Stored) -> None:
    """What was run, how it went, what was wrong, where it is."""
    document = report(stored)
    assert [one.title for one in document.shown] == [
        "Run", "Metric Overview", "Curves", "Evaluations", "Speed", "Goodput", "Machines", "Routers", "Alerts",
        "Samples", "Config", "Environment", "Data", "Reproduce",
    ]  # fmt: skip


def test_the_overview_says_first_last_and_best(stored: chiplog.Stored) -> None:
    """A loss is best where it is low, an accuracy where it is high; of others nobody can say."""
    (grid,) = section(report(stored), "Metric Overview").blocks
    rows = {row[0]: dict(zip(grid.head, row, strict=True)) for row in grid.rows}
    loss = rows["train/loss"]
    assert (loss["first"], loss["last"], loss["best"], loss["at step"]) == ("3", "nan", "0.05", "59")
    assert loss["not finite"] == "1"
    assert rows["train/acc"]["best"] == "0.98333"
    assert rows["gpu/0/power"]["best"] == ""


def test_the_time_of_steps_that_were_timed_is_accounted_for() -> None:
    """Where it went, in shares."""
    with chiplog.init(project="p", sinks="none") as run:
        for _ in run.steps(range(5)):
            pass
    words, grid, *_ = section(report(chiplog.read(run.dir)), "Goodput").blocks
    assert "went into productive steps" in words.text and {row[0] for row in grid.rows} >= {"step"}


def test_alerts_have_their_evidence(stored: chiplog.Stored) -> None:
    (grid,) = section(report(stored), "Alerts").blocks
    row = next(row for row in grid.rows if row[2] == "too slow")
    assert row[:4] == ["31", "warn", "too slow", "by far"] and "took_sec 12.5" in row[4]


def test_secrets_are_hidden(stored: chiplog.Stored) -> None:
    assert "hush" not in to_html(report(stored)) and "hush" not in to_markdown(report(stored))


def test_a_killed_run_and_an_empty_one_have_a_report() -> None:
    """Without a finish, without a point."""
    run = chiplog.init(project="p", sinks="none", id="empty")
    run.finish()
    (run.dir / "run.json").unlink()
    for journal in (run.dir / "journal").iterdir():
        journal.write_bytes(b"\n".join(journal.read_bytes().splitlines()[:1]) + b"\n{torn")
    document = report(chiplog.read(run.dir))
    assert document.shown and "<html" in to_html(document)


def test_pictures_are_files_in_markdown_and_drawn_in_html(stored: chiplog.Stored) -> None:
    """Without a file Markdown has the curve as text."""
    with_files = report(stored, pictures={"train/loss": "plots/a b.png"})
    assert "![train/loss](plots/a%20b.png)" in to_markdown(with_files)
    assert "```text" in to_markdown(report(stored)) and to_html(with_files).count("<svg") >= 5


def test_the_page_needs_nothing_else(stored: chiplog.Stored) -> None:
    """No address in it, no script, and a policy that forbids both."""
    text = to_html(report(stored))
    assert all(target.startswith("#") for target in re.findall(r"(?:src|href)\s*=\s*[\"']?([^\"']*)", text))
    assert "<script" not in text and "url(" not in text
    assert "default-src 'none'" in text


class Tags(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole(stored: chiplog.Stored) -> None:
    """Well-formed, and each picture is an image by itself."""
    text = to_html(report(stored))
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and "table" in tags.seen
    for drawn in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawn)


def test_what_comes_out_of_a_run_is_no_markup() -> None:
    """In names, values, texts and titles, in all three forms."""
    with chiplog.init(project="p", sinks="none", name=EVIL, config={EVIL: EVIL}) as run:
        run.log({EVIL: 1.0, "t": chiplog.Text(EVIL)})
        run.alert(EVIL, text=EVIL)
        run.table(EVIL, [{EVIL: EVIL}])
    document = report(chiplog.read(run.dir))
    html, markdown, text = to_html(document), to_markdown(document), to_text(document, width=100)
    assert "<script" not in html and "\x1b" not in html + markdown + text
    fenced = re.sub(r"(`{3,})text\n.*?\n\1", "", markdown, flags=re.DOTALL)
    assert "<script" not in fenced and not re.search(r"(?<!\\)\]\(javascript", fenced)
    tags = Tags()
    tags.feed(html)
    assert tags.open == []


def test_numbers_stand_on_the_right() -> None:
    """In Markdown by the rule of the table, in HTML by their class."""
    document = Document("t", "", [Section("s", [Grid(["a", "n"], [["x", "1"]], right=["n"])])])
    assert "| :--- | ---: |" in to_markdown(document)
    assert "<td class=n>1</td>" in to_html(document) and "<td>x</td>" in to_html(document)


def test_two_thousand_metrics(tmp_path: Path) -> None:
    """The report stays small, and says what it leaves out."""
    with chiplog.init(project="p", sinks="none") as run:
        for step in range(3):
            run.log({f"m{n}": 1.0 * n for n in range(2000)}, step=step)
    text = to_html(report(chiplog.read(run.dir)))
    assert "of 2,000 metrics" in text and len(text) < 3_000_000


def test_a_run_that_its_own_process_ends_is_told_as_it_will_be() -> None:
    """The state it will have, the time up to now, and what the pictures took; a run that goes on is running."""
    run = chiplog.init(project="p", sinks="none")
    run.log({"loss": 1.0}, step=0)
    run.flush()
    read = chiplog.read(run.dir)
    ends = Ends("finished", read.created + 90_000_000_000, {"plots": 61.25})
    told, still = to_markdown(report(read, ends=ends)), to_markdown(report(read))
    assert "**state**: finished" in told and "**took**: 1m30s" in told and "**finalize/plots**: 61.25s" in told
    assert "running" not in told and "**state**: running" in still
    run.finish()


def test_notes_are_in_the_environment_and_the_timings() -> None:
    """Not among the metrics, and without secrets."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"loss": 1.0}, step=0)
        run.event("env_info", Torch={"Version": "2.0"}, world=4, api_key="hush")
        run.event("timings", train=12.5, phases={"load": 3})
    document = report(chiplog.read(run.dir))
    (environment,) = section(document, "Environment").blocks
    assert {("Torch/Version", "2.0"), ("world", "4")} <= set(environment.rows)
    (timings,) = section(document, "Timings").blocks
    assert list(timings.rows) == [("train", "12.50s"), ("phases/load", "3.00s")]
    (grid,) = section(document, "Metric Overview").blocks
    assert [row[0] for row in grid.rows] == ["loss"] and "hush" not in to_html(document)


def test_an_evaluation_has_one_column_of_steps() -> None:
    """Also where somebody logs the step as a metric; and one row, whatever the ranks say of it."""
    with chiplog.init(project="p", sinks="none") as run:
        run.eval({"step": 5, "loss": 2.5}, step=5)
        run.write(records.Eval, step=5, metrics={"loss/mean": 2.5}, across=True)
    (grid,) = section(report(chiplog.read(run.dir)), "Evaluations").blocks
    assert list(grid.head) == ["step", "loss"] and [list(row) for row in grid.rows] == [["5", "2.5"]]


def test_a_constant_has_no_deviation() -> None:
    """Not even the little that sums of doubles leave."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for step in range(24):
            run.log({"a": 0.1}, step=step)
    (grid,) = section(report(chiplog.read(run.dir)), "Metric Overview").blocks
    assert dict(zip(grid.head, grid.rows[0], strict=True))["std"] == "0"


def test_the_summary_and_the_histograms_are_in_it() -> None:
    """A histogram is drawn, and told in numbers."""
    with chiplog.init(project="p", sinks="none") as run:
        run.summary["best_acc"] = 0.9
        run.log({"weights": chiplog.Histogram(counts=[1, 2, 5], edges=[0, 1, 2, 3])}, step=4)
    document = report(chiplog.read(run.dir))
    assert section(document, "Summary").shown == [Pairs([("best_acc", "0.9")])]
    (picture,) = section(document, "Histograms").shown
    assert picture.title == "weights at step 4: 8 values, mean 2, 0 to 3"  # type: ignore[union-attr]
    assert to_html(document).count("<rect") == 3 and "▂▄█" in to_text(document, width=80)
