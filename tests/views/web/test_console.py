"""What a run prints, in a real browser."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import chiplog
from chiplog.core import records
from chiplog.views.web.export import export
from tests.views.web import serving as tools
from tests.views.web import stores
from tests.views.web.test_page import CHROMIUM, _canary, _payloads, browser, looking

__all__ = ["browser"]  # a fixture
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")


def printed(root: Path, lines: list[str], *, id: str = "said", **more: list[int]) -> Path:
    run = stores.make_run(root, "p", id)
    journal = stores.Journal(run)
    journal.step(0, loss=1.0)
    journal.add(records.ConsoleRecord, lines=lines, times=[stores.BEGAN + at for at in range(len(lines))], **more)
    journal.finish()
    return run


def test_what_is_printed_appears_while_the_run_goes_on(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New lines within a second or two, a bar in its last state, at the end of the page unless somebody has scrolled."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none", capture=True) as run:
        run.log({"loss": 1.0}, step=0)
        print("\x1b[1;32mready\x1b[0m to go")
        run.flush()
        with tools.serving(tmp_path) as served, looking(browser, served) as page:
            page.get_by_role("link", name="now").click()
            page.get_by_role("tab", name="Console").click()
            box = page.get_by_role("log")
            expect(box).to_have_text("ready to go\n")
            expect(box.locator(".bold.ink-2")).to_have_text("ready")
            print("oh no", file=sys.stderr)
            sys.stdout.write("\r50%")
            expect(box.locator(".line.error")).to_have_text("oh no\n")
            expect(box.locator(".line").last).to_have_text("50%\n")
            print("\r100%")
            expect(box.locator(".line")).to_have_count(3)
            expect(box.locator(".line").last).to_have_text("100%\n")
            for number in range(300):
                print(f"line {number}", "and many words" * (number % 40))  # some take several rows
            expect(box).to_contain_text("line 299")
            expect(box.locator(".line").last).to_be_in_viewport()
            box.evaluate("box => { box.scrollTop = 0; }")
            print("more")
            expect(box).to_contain_text("more")
            expect(box.locator(".line").first).to_be_in_viewport()
            page.get_by_role("button", name="To the end").click()
            expect(box.locator(".line").last).to_be_in_viewport()
            page.get_by_label("search the console").fill("LINE 29")
            expect(box.locator(".line:visible")).to_have_count(11)  # 29, and 290 to 299
            print("line 29 once more")
            expect(box.locator(".line:visible")).to_have_count(12)
            expect(page.locator("section.run")).to_contain_text("12 of 305 lines")


def test_printed_text_is_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    """Two hundred lines that try to be code, and escapes that try to be more than colour."""
    with _canary() as (port, hits):
        payloads = _payloads(port)
        lines = [*payloads, *(f"\x1b[31m{text}\x1b[0;38;5;200m" for text in payloads), "\x1b]0;x\x07\x1b[2J\x9b1mend"]
        printed(tmp_path, lines, stderr=[1, 2], open=[0])
        with tools.serving(tmp_path) as served, looking(browser, served) as page:
            page.add_init_script("window.canary = 0")
            page.goto(f"{served.address}#/run/{served.keys()['said']}/console")
            box = page.get_by_role("log")
            expect(box).to_contain_text("<script>")
            expect(box.locator(".line").last).to_have_text("end\n")
            assert page.evaluate("window.canary || 0") == 0
            assert page.evaluate("document.querySelectorAll('main pre *:not(div, span)').length") == 0
            classes = page.evaluate(
                "[...new Set([...document.querySelectorAll('main pre span')].map(one => one.className))]"
            )
            assert classes == ["ink-1"]
        assert hits == []


def test_the_last_lines_of_very_many_are_shown(browser: Browser, tmp_path: Path) -> None:
    """The newest, and how many there are."""
    printed(tmp_path, [f"line {number}" for number in range(12_000)])
    with tools.serving(tmp_path) as served, looking(browser, served) as page:
        page.goto(f"{served.address}#/run/{served.keys()['said']}/console")
        expect(page.locator("section.run")).to_contain_text("the last 5,000 of 12,000 lines")
        expect(page.get_by_role("log").locator(".line").last).to_have_text("line 11999\n")


def test_an_exported_page_has_the_lines_too(browser: Browser, tmp_path: Path) -> None:
    """Without a server."""
    printed(tmp_path / "runs", ["hello", "</script><script>window.canary = 1</script>"])
    export(tmp_path / "runs", tmp_path / "page")
    page = browser.new_page()
    page.goto((tmp_path / "page" / "index.html").as_uri())
    page.get_by_role("link", name="said").click()
    page.get_by_role("tab", name="Console").click()
    expect(page.get_by_role("log")).to_contain_text("hello")
    assert page.evaluate("window.canary || 0") == 0


def test_only_what_is_new_travels(tmp_path: Path) -> None:
    """A page says how many lines it has; one that was too slow is told where it is now."""
    printed(tmp_path, [f"line {number}" for number in range(7000)], open=[6999])
    with tools.serving(tmp_path) as served:
        key = served.keys()["said"]
        first = served.get("console", run=key)
        assert (first["first"], first["count"], len(first["lines"])) == (1999, 6999, 5000)
        assert first["lines"][0][2] == "line 1999" and first["open"][0][2] == "line 6999"
        assert served.get("console", run=key, since=6990)["lines"][0][2] == "line 6990"
        assert served.get("console", run=key, since=6999)["lines"] == []
        assert served.get("console", run=key, since=10**9)["lines"] == []
