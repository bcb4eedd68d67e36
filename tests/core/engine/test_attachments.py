"""Files of a run have the names that people gave them."""

from __future__ import annotations

from pathlib import Path

import chiplog

PNG = b"\x89PNG\r\n\x1a\n"


def test_each_file_of_a_run_is_there_under_its_own_name(tmp_path: Path) -> None:
    """Two that differ in their suffix, a picture at several steps, one that comes twice, and one inside another."""
    for name in ("report.md", "report.html", "plain"):
        (tmp_path / name).write_text(name)
    with chiplog.init("p", dir=tmp_path / "runs", alerts=False) as run:
        for step in (0, 100, 100):
            run.log({"plots/loss": chiplog.Image(PNG)}, step=step)
        for name in ("report.md", "report.html", "report.md", "plain"):
            run.artifact(tmp_path / name)
        run.artifact(tmp_path / "report.md", name="plain/report")
    found = {record.path: record.name for record in chiplog.read(run.dir).records("file")}  # type: ignore[union-attr]
    assert found == {
        "files/media/plots/loss.png": "plots/loss",
        "files/media/plots/loss-100.png": "plots/loss",
        "files/media/plots/loss-100-3.png": "plots/loss",
        "files/artifacts/report.md": "report.md",
        "files/artifacts/report.html": "report.html",
        "files/artifacts/report-2.md": "report.md",
        "files/artifacts/plain": "plain",
        "files/artifacts/plain-report.md": "plain/report",
    }
    assert (run.dir / "files" / "artifacts" / "report.html").read_text() == "report.html"
