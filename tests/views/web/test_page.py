"""The page in a real browser: Debian's Chromium, one at a time."""

from __future__ import annotations

import fcntl
import http.server
import math
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import chiplog
from chiplog.core import records
from chiplog.views.web.export import export
from chiplog.views.web.token_file import token_file
from tests.views.web import serving as tools
from tests.views.web import stores

CHROMIUM = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip

expect.set_options(timeout=15_000)  # as for actions: other work of the machine may take its time
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser of its own for each test; the others wait, so that there is never more than one."""
    with (Path(tempfile.gettempdir()) / f"chiplog-browser-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with sync_playwright() as playwright:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            yield started
            started.close()


@contextmanager
def looking(browser: Browser, served: tools.Served, **options: Any) -> Iterator[Page]:
    """A page that has shown its token. Whatever it complains of fails the test: errors, dialogs, requests elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
    page = context.new_page()
    page.set_default_timeout(15_000)
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: complaints.append(request.url) if not _ours(request.url, served) else None)
    page.goto(f"{served.address}#token={tools.TOKEN}")
    yield page
    assert complaints == []
    context.close()


def _ours(url: str, served: tools.Served) -> bool:
    return url.startswith((served.address, "data:", f"blob:{served.address}"))


def drawn(page: Page, name: str) -> Any:
    return page.locator(f'article.chart[data-name="{name}"][data-drawn="yes"]')


def test_every_part_of_the_page_can_be_reached(browser: Browser, tmp_path: Path) -> None:
    """From the list through all tabs of a run, charts of several, and a comparison; a link brings each back."""
    stores.rich(tmp_path)
    for number in range(4):
        stores.simple(tmp_path, f"run-{number}", lr=1e-4 * (number + 1))
    stores.damage(stores.simple(tmp_path, "broken"))
    with tools.serving(tmp_path) as served, looking(browser, served, accept_downloads=True) as page:
        expect(page.locator("tr[data-key]")).to_have_count(6)
        assert tools.TOKEN not in page.url
        _search_sort_and_choose(page)
        listed = page.url
        page.get_by_role("link", name="Charts of 4").click()
        expect(drawn(page, "train/loss")).to_be_visible()
        assert drawn(page, "train/loss").get_attribute("data-points") == "800"
        _zoom_search_and_save(page)
        page.goto(listed)
        page.get_by_role("link", name="Compare").click()
        expect(page.get_by_role("table", name="config differences")).to_contain_text("0.0004")
        expect(page.get_by_role("table", name="values")).to_contain_text("eval/loss")
        page.goto(f"{served.address}#/runs")
        page.get_by_role("link", name="everything at once").click()
        _every_tab(page)
        page.goto(f"{served.address}#/runs")
        page.get_by_role("link", name="broken").click()
        expect(page.get_by_role("alert")).to_contain_text("cannot be read")
        expect(drawn(page, "train/loss")).to_be_visible()


def _search_sort_and_choose(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("run- lr<9")  # no column of the table
    expect(page.locator("tr[data-key]")).to_have_count(4)
    page.get_by_label("search runs").fill("run- (lr<=2e-4 or lr=4e-4) -state=running")
    expect(page.locator("tr[data-key]")).to_have_count(3)
    page.get_by_label("search runs").fill("learnrate>1")
    expect(page.locator(".trouble")).to_contain_text("no run has a setting or metric 'learnrate'")
    expect(page.locator("tr[data-key]")).to_have_count(3)  # the last answer stays
    page.get_by_label("search runs").fill("run- mod")
    expect(page.locator("#keys option").first).to_have_attribute("value", "run- model.dim")
    page.get_by_label("search runs").fill("run- lr<9")
    expect(page.locator(".trouble")).to_be_hidden()
    page.get_by_label("add a column").fill("c:lr")
    page.get_by_label("add a column").press("Enter")
    expect(page.locator("tr[data-key]")).to_have_count(4)
    page.get_by_role("button", name="lr", exact=True).click()
    expect(page.locator("tr[data-key] td.name").first).to_have_text("run-0")
    page.get_by_role("button", name="lr ↑").click()
    expect(page.locator("tr[data-key] td.name").first).to_have_text("run-3")
    page.get_by_label("group by").select_option("c:lr")
    expect(page.locator("tr.head")).to_have_count(4)
    page.get_by_label("choose all that are shown").check()


def _zoom_search_and_save(page: Page) -> None:
    chart = drawn(page, "train/loss")
    box = chart.locator(".plot").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 150, box["y"] + 80)
    expect(chart.locator(".tip")).to_contain_text("run-")
    page.mouse.down()
    page.mouse.move(box["x"] + 250, box["y"] + 80, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    assert "low=" in page.url
    link = page.url
    page.get_by_label("smoothing").fill("0.9")
    page.get_by_label("x axis").select_option("relative")
    page.get_by_label("log y").check()
    page.get_by_label("search series").fill("loss$")
    expect(page.locator("article.chart")).to_have_count(2)
    for kind, begins in (("CSV", b"run,name,rank,step,time,value"), ("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        drawn(page, "train/loss").get_by_label("save train/loss").click()
        with page.expect_download() as download:
            drawn(page, "train/loss").get_by_role("button", name=kind).click()
        assert Path(download.value.path()).read_bytes().startswith(begins)
    page.goto(link)
    page.reload()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    drawn(page, "train/loss").locator(".plot").dblclick()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()


def _every_tab(page: Page) -> None:
    expect(drawn(page, "train/grad_norm")).to_contain_text("NaN")
    for name, flags in (("train/loss", 1), ("train/lr", 0)):
        assert (
            drawn(page, name).evaluate("one => one.chart.shown.uprights.filter((at) => at.flag !== undefined).length")
            == flags
        )
    plot = drawn(page, "train/loss").locator(".plot")
    box = plot.bounding_box()
    assert box is not None
    plot.click(position={"x": 52 + (box["width"] - 62) * 410 / 599, "y": 11})
    expect(page.locator(".alert.here")).to_contain_text("far above")
    expect(page.get_by_label("the last 5 values, from 2.1")).to_be_visible()
    for tab, words in {
        "Overview": "went into productive steps", "System": "gpu/*/power", "Ranks": "rank 2", "Matrices": "13 of 13", "Samples": "1–50 of 52",
        "Alerts": "deviations", "Trace": "backward", "Files": "files/report.md",
    }.items():  # fmt: skip
        page.get_by_role("tab", name=tab).click()
        expect(page.locator("section.run")).to_contain_text(words)
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="show").click()
    expect(page.locator(".markdown b")).to_have_text("fell")
    page.get_by_role("tab", name="Samples").click()
    page.get_by_label("search text").fill("question 300-2")
    expect(page.locator("article.sample")).to_have_count(1)
    expect(page.locator("mark")).to_have_text("Question 300-2")
    page.get_by_role("tab", name="Matrices").click()
    page.get_by_label("time").fill("0")
    expect(page.locator("section.run")).to_contain_text("1 of 13")


def test_the_pointer_shows_what_there_is(browser: Browser, tmp_path: Path) -> None:
    """Runs that ended before the pointer are left out; the head names the step that is pointed at."""
    for name, steps in (("short", 50), ("middle", 100), ("long", 200)):
        stores.simple(tmp_path, name, steps=steps)
    with tools.serving(tmp_path) as served, looking(browser, served) as page:
        runs = ",".join(served.keys().values())
        page.goto(f"{served.address}#/charts?runs={runs}&smooth=0.9")
        plot = drawn(page, "train/loss").locator(".plot")
        box = plot.bounding_box()
        assert box is not None
        across = box["width"] - 62
        for step, ids in ((150, ["long"]), (80, ["long", "middle"]), (20, ["long", "middle", "short"])):
            page.mouse.move(box["x"] + 52 + across * step / 199, box["y"] + 60)
            tip = plot.locator(".tip")
            expect(tip.locator("b")).to_have_text(f"step {step}")
            assert sorted(tip.locator("span.grow").all_inner_texts()) == ids
            expect(tip).to_contain_text("smoothed")
        page.get_by_label("smoothing").fill("0")
        page.mouse.move(box["x"] + 52 + across * 151 / 199, box["y"] + 60)
        expect(plot.locator(".tip b")).to_have_text("step 151")
        expect(plot.locator("text=smoothed")).to_have_count(0)


def test_a_phone_and_a_printer_show_what_a_screen_does(browser: Browser, tmp_path: Path) -> None:
    """A tap shows values, the open tab is in sight, and what is out of sight is printed, in units that people read."""
    stores.rich(tmp_path)
    with tools.serving(tmp_path) as served, looking(browser, served, has_touch=True) as page:
        page.set_viewport_size({"width": 390, "height": 700})
        address = f"{served.address}#/run/{served.keys()['rich']}"
        page.goto(f"{address}/files")
        expect(page.get_by_role("tab", name="Files")).to_be_in_viewport(ratio=0.9)
        page.goto(f"{address}/system?shut=%5B%22gpu%22%5D")
        expect(page.locator("details.group")).not_to_have_attribute("open", "")
        page.locator("details.group > summary").tap()
        expect(page).not_to_have_url(re.compile("shut"))
        power = drawn(page, "gpu/*/power")
        expect(power.locator("header")).to_contain_text("W")
        power.locator(".plot").tap()
        expect(power.locator(".tip b")).to_contain_text("step")
        expect(power.locator(".tip div").first).to_contain_text(re.compile(r"gpu/1/power\s*6[4-7]\d"))
        page.goto(f"{address}/charts")
        expect(drawn(page, "train/loss")).to_be_visible()
        page.mouse.wheel(0, 1500)
        width = drawn(page, "train/loss").locator("canvas")
        expect(width).to_have_attribute("width", "0")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(width).not_to_have_attribute("width", "0")


def test_a_live_list_leaves_the_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    """Rows and the head that do not change are not rebuilt, and a row that changes keeps the focus."""
    stores.simple(tmp_path, "still")
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run, tools.serving(tmp_path) as served:
        run.log({"train/loss": 1.0}, step=0)
        with looking(browser, served) as page:
            expect(page.locator("tr[data-key]")).to_have_count(2)
            for place in ('tr[data-key]:has-text("now") a', 'tr[data-key]:has-text("still") a', "th.name button"):
                page.locator(place).focus()
                before = page.locator('tr[data-key]:has-text("now") td.step').inner_text()
                run.log({"train/loss": 1.0}, step=int(before) + 1)
                expect(page.locator('tr[data-key]:has-text("now") td.step')).not_to_have_text(before)
                expect(page.locator(place)).to_be_focused()
            page.goto(f"{served.address}#/runs?cols=notjson")
            expect(page.locator("tr[data-key]")).to_have_count(2)


def test_a_live_run_does_not_disturb_who_looks_at_it(browser: Browser, tmp_path: Path) -> None:
    """Each tab shows what is written meanwhile; focus, filters and what was opened stay."""
    with (
        chiplog.init("live", id="now", dir=tmp_path, sinks="none", alerts=False) as run,
        tools.serving(tmp_path) as served,
    ):
        run.log({"train/loss": 1.5}, step=1)
        run.table("samples", [{"text": "first words"}], step=1)
        run.log({"load": chiplog.Matrix([[1.0, 2.0]])}, step=1)
        with looking(browser, served) as page:
            address = f"{served.address}#/run/{served.keys()['now']}"
            page.goto(f"{address}/overview")
            expect(page.locator(".figure b")).to_have_text("1.5")
            page.get_by_role("tab", name="Samples").focus()
            run.log({"train/loss": 2.5}, step=2)
            expect(page.locator(".figure b")).to_have_text("2.5")
            expect(page.get_by_role("tab", name="Samples")).to_be_focused()
            page.get_by_role("tab", name="Samples").click()
            page.get_by_label("search text").fill("words")
            expect(page.locator("mark")).to_have_count(1)
            run.table("samples", [{"text": "other words"}, {"text": "neither"}], step=3)
            expect(page.locator("mark")).to_have_count(2)
            expect(page.get_by_label("search text")).to_be_focused()
            page.get_by_role("tab", name="Matrices").click()
            expect(page.locator("output")).to_have_text("step 1 (1 of 1)")
            run.log({"load": chiplog.Matrix([[1.0, 2.0]])}, step=4)
            expect(page.locator("output")).to_have_text("step 4 (2 of 2)")
            page.get_by_role("tab", name="Alerts").click()
            for step in (5, 6):
                run.alert("fans are slow", level="warn", step=step)
            run.alert("loss is nan", level="error", step=6)
            expect(page.locator("article.alert")).to_have_count(2)
            expect(page.locator("article.alert").first).to_contain_text("loss is nan")
            page.locator("summary").click()
            run.alert("fans are slow", level="warn", step=7)
            expect(page.locator("details[open] summary")).to_have_text("All 3, steps 5 to 7")


def test_a_link_without_a_token_asks_for_it(browser: Browser, tmp_path: Path) -> None:
    """And leads to what it names."""
    stores.simple(tmp_path, "one")
    with tools.serving(tmp_path) as served, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{served.address}#/run/{served.keys()['one']}/overview")
        page.get_by_label("token").fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("status")).to_contain_text("not the token")
        page.get_by_label("token").fill(f"{served.address}#token={tools.TOKEN}")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")


def test_a_server_that_stops_or_starts_again_is_named(browser: Browser, tmp_path: Path) -> None:
    """The page says what to do; what it shows stays."""
    stores.simple(tmp_path, "one")
    with browser.new_context() as context:
        page = context.new_page()
        with tools.serving(tmp_path) as served:
            page.goto(f"{served.address}#token={tools.TOKEN}")
            expect(page.locator("tr[data-key]")).to_have_count(1)
            expect(page.locator(".notice")).to_be_hidden()
        expect(page.locator(".notice")).to_contain_text("The server has stopped")
        expect(page.locator("tr[data-key]")).to_have_count(1)
        page.route("**/api/**", lambda route: route.fulfill(status=401, json={"error": "the token is missing"}))
        expect(page.locator(".notice")).to_contain_text("restarted with a new token", timeout=60_000)


def test_a_step_is_walked_through(browser: Browser, tmp_path: Path) -> None:
    """Its timeline says what one points at; wheel, drag and keys zoom and pan; bars and buttons choose the step."""
    stores.traced(tmp_path)
    with tools.serving(tmp_path) as served, looking(browser, served) as page:
        page.goto(f"{served.address}#/run/{served.keys()['traced']}/trace")
        flame = page.locator("canvas.flame")
        expect(flame).to_have_attribute("aria-label", "timeline of step 1, rank 0: 7 spans in 400ms")
        box = flame.bounding_box()
        assert box is not None
        said = page.locator("figure", has=flame).locator(".caption")
        point = box["x"] + box["width"] * 0.02, box["y"] + 70  # in the second row of the first lane
        page.mouse.move(*point)
        expect(said).to_contain_text("forward 100ms, from 0ms · layers=8, note=<b>bold</b>")
        page.mouse.wheel(0, 30)  # scrolls the page, until the timeline is clicked
        expect(flame).to_have_attribute("data-high", "0.4")
        page.mouse.wheel(0, -30)
        page.mouse.click(*point)
        page.mouse.wheel(0, -300)
        expect(flame).not_to_have_attribute("data-high", "0.4")
        low, high = (float(flame.get_attribute(f"data-{end}") or "") for end in ("low", "high"))
        assert low == pytest.approx(0.02 * 0.4 * (1 - 1 / math.e), abs=2e-3) and high - low == pytest.approx(
            0.4 / math.e
        )
        page.mouse.down()
        page.mouse.move(point[0] - 100, point[1], steps=3)
        page.mouse.up()
        assert float(flame.get_attribute("data-low") or "") == pytest.approx(
            low + 100 / box["width"] * (high - low), rel=0.01
        )
        flame.focus()
        page.keyboard.press("0")
        expect(flame).to_have_attribute("data-high", "0.4")
        page.keyboard.press("+")
        expect(flame).to_have_attribute("data-high", re.compile(r"^0\.3[12]"))
        page.get_by_role("button", name="step before").click()
        expect(flame).to_have_attribute("aria-label", "timeline of step 0, rank 0: 7 spans in 400ms")
        assert "step=0" in page.url
        page.locator("canvas.stack").click(position={"x": 800, "y": 100})
        expect(page.get_by_label("step", exact=True)).to_have_value("1")


def test_a_run_is_watched_while_it_is_written(browser: Browser, tmp_path: Path) -> None:
    """New points, new series, alerts and the end appear by themselves, on a phone's screen in the dark too."""
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run, tools.serving(tmp_path) as served:
        for step in range(20):
            run.log({"train/loss": 1 / (step + 1)}, step=step)
        with looking(browser, served, color_scheme="dark") as page:
            page.set_viewport_size({"width": 390, "height": 800})
            page.get_by_role("link", name="now").click()
            expect(drawn(page, "train/loss")).to_have_attribute("data-points", "20")
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            for step in range(20, 60):
                run.log({"train/loss": 1 / (step + 1)}, step=step)
            expect(drawn(page, "train/loss")).to_have_attribute("data-points", "60")
            expect(page.locator(".title")).to_contain_text("step 59")
            run.log({"train/new": 5.0}, step=60)
            expect(drawn(page, "train/new")).to_be_visible()
            run.alert("something odd", level="error")
            expect(page.locator(".badge")).to_have_text("1")
            run.finish()
            expect(page.locator(".title .state.finished")).to_be_visible()


def test_a_poisoned_run_is_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    """Names, settings, samples, alerts, files and spans that try to be code are shown as they are."""
    with _canary() as (port, hits):
        payloads = _payloads(port)
        _poison(tmp_path, payloads)
        with tools.serving(tmp_path) as served, looking(browser, served) as page:
            page.add_init_script("window.canary = 0")
            expect(page.locator("tr[data-key]")).to_have_count(2)
            key = served.keys()["poisoned"]
            expect(page.locator(f'tr[data-key="{key}"] td.name')).to_contain_text("<img")
            for tab, words in {"charts": "other", "overview": "Config", "samples": "<script>", "alerts": "<svg", "trace": "spans",
                               "files": "files/", "moe": "step", "sinks": "sink"}.items():  # fmt: skip
                page.goto(f"{served.address}#/run/{key}/{tab}")
                expect(page.locator("section.run")).to_contain_text(words)
                if tab == "charts":
                    expect(page.locator('article.chart[data-drawn="yes"]').nth(3)).to_be_attached()
            page.get_by_role("tab", name="Files").click()
            page.get_by_role("button", name="show").first.click()
            expect(page.locator(".markdown")).to_contain_text("click me")
            assert page.locator('.markdown a[href^="javascript"], .markdown script, .markdown img').count() == 0
            page.goto(f"{served.address}#/compare?runs={','.join(served.keys().values())}")
            expect(page.locator("section.compare")).to_contain_text("__proto__")
            assert page.evaluate("window.canary || 0") == 0
            assert page.evaluate("({}).polluted") is None
            assert (
                page.evaluate("document.querySelectorAll('main script, main iframe, main object, main svg').length")
                == 0
            )
        assert hits == []


@contextmanager
def _canary() -> Iterator[tuple[int, list[str]]]:
    """A port that nobody may visit."""
    hits: list[str] = []

    class Trap(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_error(404)

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Trap) as trap:
        thread = threading.Thread(target=trap.serve_forever)
        thread.start()
        try:
            yield trap.server_address[1], hits
        finally:
            trap.shutdown()
            thread.join()


def _payloads(port: int) -> list[str]:
    """About two hundred texts that have been code somewhere."""
    call, far = "window.canary=1;alert(1)", f"http://127.0.0.1:{port}/hit"
    shapes = [
        f"<script>{call}</script>", f"<img src=x onerror={call}>", f"<img src={far}>", f'"><img src=x onerror="{call}">',
        f"'><svg onload={call}>", f"<svg><script>{call}</script></svg>", f"<iframe src={far}></iframe>", f"javascript:{call}",
        f"<a href=javascript:{call}>x</a>", f"[x](javascript:{call})", f"![x]({far})", f"<link rel=stylesheet href={far}>",
        f"<style>@import '{far}'</style>", f"<object data={far}>", f"<embed src={far}>", f"<base href={far}>",
        f"<form action={far}><input name=x></form>", f"<body onload={call}>", f"<details open ontoggle={call}>",
        f"</script><script>{call}</script>", f"\u2028{call}\u2029", "{{constructor.constructor('alert(1)')()}}", f"${{{call}}}",
        f"<math><mi xlink:href=data:x,{call}>", f"<input autofocus onfocus={call}>", f"<video src=x onerror={call}>",
        f"data:text/html,<script>{call}</script>", f"<meta http-equiv=refresh content='0;{far}'>", f"<x onclick={call}>",
        f"<img srcset='{far} 1x'>", f"url({far})", f"expression({call})", "\x00<b>", "\u202egnp.exe", "\x1b]0;x\x07",
        "__proto__", "constructor", "toString", "hasOwnProperty", "a" * 5000,
    ]  # fmt: skip
    twists: list[Callable[[str], str]] = [
        str, str.upper, lambda text: text.replace("<", "＜<"), lambda text: f"x{text}y", lambda text: f"%3C{text}"
    ]  # fmt: skip
    return [twist(shape) for shape in shapes for twist in twists]


def _poison(root: Path, payloads: list[str]) -> None:
    nested: dict[str, Any] = {"polluted": 1}
    config = {text: payloads[-at - 1] for at, text in enumerate(payloads)} | {
        "__proto__": nested,
        "a": {"__proto__": nested},
    }
    run = stores.make_run(root, "p", "poisoned", name=payloads[5], tags=tuple(payloads[:40]), config=config)
    (run / "files").mkdir()
    (run / "files" / "report.md").write_text("\n\n".join(["# click me", *payloads, "[click me](javascript:alert(1))"]))
    (run / "files" / "x.svg").write_text(payloads[25])
    (run / "cursors").mkdir()
    (run / "cursors" / "x.json").write_text("{}")
    journal = stores.Journal(run)
    for step in range(3):
        journal.add(records.Step, 0.1, step=step, metrics={text[:200]: float(step) for text in payloads})
    for text in payloads:
        journal.add(records.Table, name=text[:100], rows=[{text: text, "text": payloads[0]}], step=1)
        journal.add(records.Alert, title=text, text=text, level="warn", rule=text, step=1, evidence={text: text})
    for path in ("files/report.md", "files/x.svg"):
        journal.add(records.File, name=payloads[0], path=path, media="text/markdown", size=9, caption=payloads[1])
    journal.add(records.MatrixRecord, name=payloads[0], values=[[1.0, 2.0]], step=1)
    names = payloads[:50]
    count = range(len(names))
    journal.add(
        records.SpansRecord, names=names, threads=[payloads[0]], name=[*count], thread=[0 for _ in count], id=[n + 1 for n in count],
        parent=[0 for _ in count], start=[stores.BEGAN for _ in count], duration=[10**6 for _ in count], step=[1 for _ in count],
    )  # fmt: skip
    journal.finish()
    stores.simple(root, "clean", project="p")


def test_a_large_store_stays_quick(browser: Browser, tmp_path: Path) -> None:
    """A thousand runs and a run of five hundred series: only what is in sight is in the page, and searching is at once."""
    for number in range(1000):
        stores.simple(tmp_path, f"run-{number:04d}", steps=3)
    wide = stores.make_run(tmp_path, "wide", "many")
    journal = stores.Journal(wide)
    for step in range(50):
        journal.add(
            records.Step, 0.1, step=step, metrics={f"group-{n % 10}/series-{n:03d}": n + step for n in range(500)}
        )
    journal.finish()
    with tools.serving(tmp_path) as served, looking(browser, served) as page:
        expect(page.get_by_text("1,001 runs")).to_be_visible()
        assert page.locator("tr[data-key]").count() < 100
        page.locator(".pane").evaluate("pane => pane.scrollTop = pane.scrollHeight")
        page.get_by_label("search runs").fill("many")
        expect(page.locator("tr[data-key]")).to_have_count(1)
        page.get_by_role("link", name="many").click()
        expect(page.locator('article.chart[data-drawn="yes"]').first).to_be_visible()
        expect(page.locator("article.chart")).to_have_count(500)
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(drawn(page, "group-9/series-499")).to_be_visible()
        assert page.locator('article.chart[data-drawn="yes"]').count() < 120


def test_without_its_token_the_page_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    """And shows nothing of any run; a run that is not there is said to be so."""
    stores.simple(tmp_path, "hidden-run")
    with tools.serving(tmp_path) as served:
        page = browser.new_context().new_page()
        page.goto(served.address)
        expect(page.locator("main")).to_contain_text("open the address that")
        assert "hidden-run" not in page.content()
        page.goto(f"{served.address}#token={tools.TOKEN}")
        expect(page.locator("tr[data-key]")).to_have_count(1)
        page.goto(f"{served.address}#/run/0123456789ab")
        expect(page.get_by_role("alert")).to_contain_text("no such run")


def test_the_entry_file_leads_in_as_often_as_it_is_opened(browser: Browser, tmp_path: Path) -> None:
    """The browser is started with a file; what stays in its history and address bar has no token."""
    stores.simple(tmp_path / "runs", "one")
    with (
        tools.serving(tmp_path / "runs") as served,
        token_file(f"{served.address}#token={tools.TOKEN}", tmp_path / "cache") as entry,
    ):
        context = browser.new_context()
        page = context.new_page()
        for _ in range(2):
            page.goto(entry.as_uri())
            expect(page.locator("tr[data-key]")).to_have_count(1)
            assert page.url.startswith(served.address) and tools.TOKEN not in page.url
        again = context.new_page()  # without the file, by the cookie
        again.goto(served.address)
        expect(again.locator("tr[data-key]")).to_have_count(1)
        context.close()


def test_an_exported_page_opens_from_disk(browser: Browser, tmp_path: Path) -> None:
    """Without a server: the list, charts, samples and the comparison of the chosen runs, poisoned ones too."""
    stores.rich(tmp_path / "runs")
    stores.simple(tmp_path / "runs", "left-out")
    _poison(tmp_path / "runs", _payloads(1))
    assert export(tmp_path / "runs", tmp_path / "page", ["rich", "poisoned"]) == ["rich", "poisoned"]
    assert "left-out" not in "".join(path.read_text() for path in (tmp_path / "page").iterdir())
    page = browser.new_context().new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.goto((tmp_path / "page" / "index.html").as_uri())
    expect(page.locator("tr[data-key]")).to_have_count(2)
    page.get_by_role("link", name="everything at once").click()
    expect(drawn(page, "train/loss")).to_have_attribute("data-points", "600")
    page.get_by_role("tab", name="Samples").click()
    expect(page.locator("article.sample").first).to_contain_text("Question 550-3")
    page.get_by_role("tab", name="Matrices").click()
    expect(page.locator("section.run")).to_contain_text("13 of 13")
    assert complaints == []
