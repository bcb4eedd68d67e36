"""The end of the console in a report."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import chiplog
from chiplog.views.report import html as page
from chiplog.views.report import markdown
from chiplog.views.report.build import report


def fail(root: Path, *, at: int) -> Path:
    run = chiplog.init("p", dir=root, sinks="none", capture=True)
    with suppress(RuntimeError), run:
        for step in range(200):
            run.log({"train/loss": 1.0}, step=step)
            print(f"\x1b[33mstep {step}\x1b[0m <b>")
            if step == at:
                raise RuntimeError("out of memory")
    return run.dir


def test_a_run_that_failed_has_its_last_words(tmp_path: Path) -> None:
    """Fifty lines at most, the traceback among them, as text."""
    document = report(chiplog.read(fail(tmp_path, at=150)))
    (section,) = [one for one in document.shown if one.title == "Last Words"]
    lines = section.blocks[0].text.splitlines()  # type: ignore[union-attr]
    assert len(lines) == 50 and lines[-1] == "RuntimeError: out of memory"
    assert "step 150 <b>" in lines
    html = page.to_html(document)
    assert "step 150 &lt;b&gt;" in html and "\x1b" not in html
    assert "step 150" in markdown.to_markdown(document)


def test_a_run_that_ended_well_has_none(tmp_path: Path) -> None:
    """Its numbers say it all."""
    document = report(chiplog.read(fail(tmp_path, at=1000)))
    assert "Last Words" not in [one.title for one in document.shown]
