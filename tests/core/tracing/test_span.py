"""Spans as people write them: nested, decorated, by hand, in threads and tasks, over forks and failures."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import chiplog
from chiplog.assembly import wiring
from chiplog.core.clock import RunClock
from chiplog.core.tracing import span as spans
from chiplog.core.tracing import tracer
from chiplog.core.tracing.idle_span import Idle, Idles
from chiplog.core.tracing.tracer import Tracer
from chiplog.store.spans.span import StoredSpan


@pytest.fixture
def run(tmp_path: Path) -> chiplog.Run:
    return chiplog.init("p", sinks="none", dir=tmp_path, strict=True)


def by_name(run: chiplog.Run) -> dict[str, StoredSpan]:
    return {span.name: span for span in run.spans()}


def test_spans_of_a_thread_nest(run: chiplog.Run) -> None:
    """A span lies in the one that was open when it began, and siblings in the same."""
    with run.span("outer"):
        with run.span("first"):
            pass
        with run.span("second"), run.span("deep"):
            pass
    found = by_name(run)
    assert found["first"].parent == found["second"].parent == found["outer"].id
    assert found["deep"].parent == found["second"].id and found["outer"].parent == 0
    assert found["outer"].start <= found["first"].start and found["second"].end <= found["outer"].end


def test_tags_keep_their_types_and_their_moment(run: chiplog.Run) -> None:
    """A dict that is changed afterwards does not change the span; tags can be added while it is open."""
    tags = {"micro": 3, "ratio": 0.5, "last": True, "name": "x", "shape": [1, 2]}
    with run.span("s", tags=tags) as span:
        tags["micro"] = 4
        span.tag(loss=2.5)
    assert by_name(run)["s"].tags == {
        "micro": 3, "ratio": 0.5, "last": True, "name": "x", "shape": [1, 2], "loss": 2.5,
    }  # fmt: skip


def test_a_tag_named_step_is_the_step(run: chiplog.Run) -> None:
    """For loops that know their step better than the last call of `log`."""
    run.log({"x": 1}, step=7)
    with run.span("tagged", tags={"step": 9}), run.span("plain"):
        pass
    found = by_name(run)
    assert found["tagged"].step == 9 and found["plain"].step == 7


def test_a_span_that_raises_is_closed_and_marked(run: chiplog.Run) -> None:
    """With the name of the exception, not its words; what comes after is not inside it."""
    with pytest.raises(KeyError), run.span("bad"):
        raise KeyError("secret")
    with run.span("good"):
        pass
    found = by_name(run)
    assert found["bad"].failed and found["bad"].error == "KeyError"
    assert not found["good"].failed and found["good"].parent == 0


def test_a_hundred_threads_have_timelines_of_their_own(run: chiplog.Run) -> None:
    """Each with its own nesting, under the thread's name."""
    together = threading.Barrier(100)

    def work(number: int) -> None:
        together.wait()
        for _ in range(10):
            with run.span("outer", tags={"n": number}), run.span("inner", tags={"n": number}):
                pass

    threads = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = run.spans()
    assert len(found) == 2000 and len({span.id for span in found}) == 2000
    assert set(found.timelines) == {f"worker {n}" for n in range(100)}
    known = {span.id: span for span in found}
    for inner in found.named("inner"):
        outer = known[inner.parent]
        assert outer.name == "outer" and outer.tags == inner.tags and outer.thread == inner.thread


def test_two_threads_of_one_name_are_two_timelines(run: chiplog.Run) -> None:
    """The second one that is alive gets its number behind the name."""
    both = threading.Barrier(2)

    def work() -> None:
        both.wait()
        with run.span("s"):
            both.wait()

    threads = [threading.Thread(target=work, name="twin") for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(run.spans().timelines)) == 2


def test_tasks_that_take_turns_are_each_right(run: chiplog.Run) -> None:
    """A from 0 to 0.1 and B from 0.05 to 0.2 s are recorded so; neither lies in the other, both in their creator's."""

    took: dict[str, tuple[int, int]] = {}  # nanoseconds at least, and at most

    async def one(name: str, after: float, until: float) -> None:
        await asyncio.sleep(after)
        around = time.monotonic_ns()
        with run.span(name):
            inside = time.monotonic_ns()
            await asyncio.sleep(until - after)
            with run.span(f"{name} inside"):
                pass
            inside = time.monotonic_ns() - inside
        took[name] = inside, time.monotonic_ns() - around

    async def main() -> None:
        with run.span("main"):
            await asyncio.gather(one("A", 0.0, 0.1), one("B", 0.05, 0.2))

    with run.span("around"):
        asyncio.run(main())
    found = by_name(run)
    assert all(least <= found[name].duration <= most for name, (least, most) in took.items())
    assert found["A"].seconds >= 0.095 and found["B"].seconds >= 0.145
    assert found["A"].start < found["B"].start < found["A"].end < found["B"].end
    assert found["A"].parent == found["B"].parent == found["main"].id
    assert found["main"].parent == found["around"].id
    assert found["A inside"].parent == found["A"].id and found["B inside"].parent == found["B"].id
    assert len({found[name].thread for name in ("A", "B", "main", "around")}) == 4
    assert found["A"].kind == "task" and found["A inside"].thread == found["A"].thread


def test_a_task_keeps_the_span_it_was_created_in(run: chiplog.Run) -> None:
    """Also when its creator is already in another one."""

    async def later() -> None:
        await asyncio.sleep(0)
        with run.span("child"):
            pass

    async def main() -> None:
        with run.span("creator"):
            task = asyncio.create_task(later())
            with run.span("other"):
                await task

    asyncio.run(main())
    found = by_name(run)
    assert found["child"].parent == found["creator"].id


def test_a_worker_thread_of_a_task_lies_in_its_span(run: chiplog.Run) -> None:
    """`asyncio.to_thread` carries the context over, on the worker's own timeline."""

    def work() -> None:
        with run.span("work"):
            pass

    async def main() -> None:
        with run.span("task"):
            await asyncio.to_thread(work)

    asyncio.run(main())
    found = by_name(run)
    assert found["work"].parent == found["task"].id and found["work"].thread != found["task"].thread


def test_functions_coroutines_and_generators_are_decorated(run: chiplog.Run) -> None:
    """Each lasts as long as the call, not as long as making the coroutine or the generator."""

    @run.span("plain")
    def plain(x: int) -> int:
        return x + 1

    @run.span("coroutine")
    async def coroutine() -> int:
        await asyncio.sleep(0.02)
        return 5

    @run.span("generator")
    def generator() -> Iterator[int]:
        time.sleep(0.02)
        got = yield 1
        yield got or 2

    @run.span("stream")
    async def stream() -> AsyncIterator[int]:
        await asyncio.sleep(0.02)
        yield 3

    async def main() -> tuple[int, list[int]]:
        return await coroutine(), [item async for item in stream()]

    assert plain(1) == 2 and plain.__name__ == "plain"
    assert plain(2) == 3
    assert asyncio.run(main()) == (5, [3])
    turns = generator()
    assert next(turns) == 1 and turns.send(7) == 7 and list(turns) == []
    seconds = {span.name: span.seconds for span in run.spans()}
    assert min(seconds[name] for name in ("coroutine", "generator", "stream")) >= 0.02
    assert len(run.spans().named("plain")) == 2


def test_a_generator_left_halfway_disturbs_nobody(run: chiplog.Run) -> None:
    """Its span ends when it is closed, out of turn, and those around keep their places and times."""

    def numbers() -> Iterator[int]:
        with run.span("generator"):
            yield 1
            yield 2

    turns = numbers()
    next(turns)
    with run.span("consumer"):
        turns.close()  # the generator's span ends inside what began after it
        with run.span("inside"):
            pass
    with run.span("after"):
        pass
    found = by_name(run)
    assert not found["generator"].failed
    assert found["inside"].parent == found["consumer"].id
    assert found["after"].parent == 0
    assert found["generator"].end <= found["inside"].start <= found["consumer"].end


def test_begin_and_end_by_hand_may_cross(run: chiplog.Run) -> None:
    """Ended by identity, from another thread too; ending twice is nothing."""
    first, second = run.span("first").begin(), run.span("second").begin()
    ender = threading.Thread(target=first.end)
    ender.start()
    ender.join()
    with run.span("inside"):
        pass
    second.end()
    first.end()
    with run.span("after"):
        pass
    found = by_name(run)
    assert len(run.spans()) == 4
    assert found["inside"].parent == found["second"].id and found["after"].parent == 0
    assert found["first"].thread == "MainThread" and found["first"].end < found["second"].end


def test_what_was_begun_by_hand_and_never_ended_is_marked(run: chiplog.Run) -> None:
    """The end of the run ends it."""
    run.span("forgotten").begin()
    run.finish()
    [span] = chiplog.read(run.dir).spans()
    assert span.failed and span.error == "unfinished"


def test_one_object_may_be_used_again_and_inside_itself(run: chiplog.Run) -> None:
    """Each time is a span of its own."""
    span = run.span("again")
    with span:
        time.sleep(0.01)
    with span, span:
        pass
    found = run.spans()
    assert len(found) == 3 and found[0].seconds >= 0.01 and found[2].parent == found[1].id


def test_without_a_run_a_span_does_nothing(tmp_path: Path) -> None:
    """The same names, one object for all; what was decorated belongs to the run of the moment."""
    assert chiplog.run is None

    @chiplog.span("decorated")
    def work() -> int:
        return 5

    with chiplog.span("nothing") as span:
        span.async_end([1])
        span.tag(a=1)
        with chiplog.span("inside") as other:
            assert other is span
    assert chiplog.span("nothing") is chiplog.span("nothing") and work() == 5
    assert chiplog.span("tagged", tags={"a": 1}).begin().end() is None
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    work()
    with chiplog.span("seen"):
        pass
    assert run.spans().names == ["decorated", "seen"]
    public = {name for name in dir(spans.Span) if not name.startswith("_")}
    assert {"begin", "end", "async_end", "tag", "id", "elapsed", "name", "error"} <= public & set(dir(Idle))


def test_an_idle_span_is_a_context_like_any_other(run: chiplog.Run) -> None:
    """It may be put on a stack, or entered by hand; and what is raised inside comes out."""
    run.trace(False)
    with ExitStack() as stack:
        stack.enter_context(run.span("stacked")).tag(a=1)
        stack.enter_context(run.span("tagged", tags={"a": 1}))
    with run.span("s").__enter__() as inner:
        inner.end()
    with pytest.raises(ZeroDivisionError), run.span("s"):
        1 / 0  # noqa: B018
    with pytest.raises(ZeroDivisionError), ExitStack() as stack:
        stack.enter_context(chiplog.span("s"))
        1 / 0  # noqa: B018
    assert not run.spans()


def test_names_without_end_are_not_kept(run: chiplog.Run) -> None:
    """Idle spans are made once for each name; a loop that invents names holds no memory."""
    run.trace(False)
    for number in range(2 * Idles.MOST):
        with run.span(f"name {number}"):
            pass
    assert len(run.engine.tracer.idle) == Idles.MOST
    assert run.span("name 5") is run.span("name 5")


def test_a_run_is_quick_to_ask(run: chiplog.Run) -> None:
    """CPython keeps up to 29 attributes of an object in itself; one more, and each takes longer to find."""
    assert len(vars(run)) < 30


def test_a_lane_goes_with_its_thread(run: chiplog.Run) -> None:
    """Idents of threads are given again: the next one with the same has its own name."""

    def work() -> None:
        with run.span("work"):
            pass

    before = len(spans._lanes)
    for number in range(20):
        thread = threading.Thread(target=work, name=f"worker {number}")
        thread.start()
        thread.join()
    assert sorted(run.spans().timelines) == sorted(f"worker {number}" for number in range(20))
    assert len(spans._lanes) <= before


def test_tracing_is_switched_off_and_on(run: chiplog.Run) -> None:
    """Also for functions that were decorated before, or meanwhile."""
    run.trace(False)

    @run.span("decorated")
    def work() -> None:
        pass

    work()
    with run.span("hidden"):
        pass
    run.trace(True)
    work()
    assert run.spans().names == ["decorated"] and len(run.spans()) == 1


def test_every_tenth_step_is_traced(run: chiplog.Run) -> None:
    """The spans of the other steps cost next to nothing and are not kept."""
    run.trace(every=10)
    for step in range(35):
        run.begin_step(step)
        with run.span("step"):
            pass
    assert [span.step for span in run.spans()] == [0, 10, 20, 30]


def test_a_wrong_sampling_is_refused_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the call that is wrong; training goes on."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    run.trace(every=0)
    with run.span("still"):
        pass
    assert "every must be a positive integer, not 0" in capsys.readouterr().err and run.spans().names == ["still"]


def test_more_spans_than_can_wait_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded memory, and no silence about it."""
    monkeypatch.setattr(spans, "WAKE", 10)
    monkeypatch.setattr(tracer, "MOST", 20)
    woken: list[int] = []
    full = Tracer(wake=lambda: woken.append(1))
    for _ in range(50):
        with full.span("s"):
            pass
    batch = full.next_batch(0)
    assert batch is not None and len(batch["id"]) == 20 and full.dropped == 30


def test_lost_spans_are_said_at_the_end(run: chiplog.Run, capsys: pytest.CaptureFixture[str]) -> None:
    """In the health, in the journal, and on the screen."""
    run.tracer.dropped = 5
    assert run.health()["spans_dropped"] == 5
    run.finish()
    assert "5 spans" in capsys.readouterr().err
    [gap] = [event for event in chiplog.read(run.dir).records("event") if getattr(event, "name", "") == "gap"]
    assert gap.data == {"spans": 5}  # type: ignore[union-attr]


FORKING = """
import os, sys
import chiplog

run = chiplog.init("p", id="run", sinks="none", dir=sys.argv[1])
with run.span("parent"):
    child = os.fork()
    if child == 0:
        with run.span("inert"):
            pass
        mine = chiplog.attach(run.dir)
        with mine.span("child"):
            pass
        mine.finish()
        os._exit(0)
    _, status = os.waitpid(child, 0)
run.finish()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_has_nothing_of_its_parent_open(tmp_path: Path) -> None:
    """Spans in the child are nobody's, until it has a run of its own; the parent's are whole."""
    subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], check=True, timeout=60)
    found = {span.name: span for span in chiplog.read(tmp_path / "p" / "run").spans()}
    assert set(found) == {"parent", "child"}
    assert found["child"].parent == 0 and found["child"].attempt != found["parent"].attempt


@pytest.mark.parametrize("jump", [3600 * 10**9, -3600 * 10**9])
def test_spans_do_not_jump_with_the_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int) -> None:
    """Their times go on evenly, on the clock of all records."""
    ahead = [0]
    monkeypatch.setattr(wiring, "RunClock", lambda: RunClock(wall=lambda: time.time_ns() + ahead[0]))
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    with run.span("outer"):
        with run.span("before"):
            pass
        ahead[0] = jump
        with run.span("after"):
            pass
        run.log({"x": 1}, step=0)
    found = by_name(run)
    [row] = list(chiplog.read(run.dir).records("step"))
    assert found["before"].end <= found["after"].start <= row.time <= found["outer"].end
    assert found["outer"].seconds < 60


def test_a_span_is_written_within_half_a_second(run: chiplog.Run) -> None:
    """Without a flush: a killed run has its trace up to there."""
    with run.span("s"):
        pass
    deadline = time.monotonic() + 5
    while not chiplog.read(run.dir).spans() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(chiplog.read(run.dir).spans()) == 1


def test_spans_of_two_runs_do_not_mix(tmp_path: Path) -> None:
    """A span of one run is not a parent in the other."""
    first, second = Tracer(), Tracer()
    with first.span("a"), second.span("b"), first.span("c"):
        pass
    mine, theirs = first.next_batch(0), second.next_batch(0)
    assert mine is not None and theirs is not None
    assert theirs["parent"] == [0]
    ids = {mine["names"][name]: number for name, number in zip(mine["name"], mine["id"], strict=True)}
    parents = {mine["names"][name]: parent for name, parent in zip(mine["name"], mine["parent"], strict=True)}
    assert parents == {"a": 0, "c": ids["a"]}


def test_threads_that_take_spans_agree_on_ids() -> None:
    """The keeper and a flush may empty a tracer at the same time: no id twice, no parent unknown."""
    both = Tracer()
    batches = []
    stop = threading.Event()

    def empty() -> None:
        while not stop.is_set() or both.done:
            if (batch := both.next_batch(0, most=7)) is not None:
                batches.append(batch)

    with ThreadPoolExecutor(2) as takers:
        done = [takers.submit(empty) for _ in range(2)]
        for _ in range(2000):
            with both.span("outer"), both.span("inner"):
                pass
        stop.set()
        for one in done:
            one.result()
    ids = [number for batch in batches for number in batch["id"]]
    parents = {parent for batch in batches for parent in batch["parent"]}
    assert len(ids) == len(set(ids)) == 4000 and parents - {0} <= set(ids)


def test_asyncio_is_not_imported_for_spans() -> None:
    """A process without it stays without it."""
    code = "import chiplog.core.tracing.tracer as t, sys\nwith t.Tracer().span('x'): pass\nassert 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_whatever_is_given_as_name_tag_or_step_is_kept_somehow(run: chiplog.Run) -> None:
    """Nothing raises into the loop, and one odd span costs the others nothing."""
    run.tracer.step = float("nan")
    with run.span(["no", "text"]), run.span("tags", tags=[1, 2]) as span:  # type: ignore[arg-type]
        span.tag(more=1)
    with run.span("huge", tags={"text": ["x" * 500_000] * 5}):
        pass
    with run.span("good", tags={"k": 1}):
        pass
    found = by_name(run)
    assert found["tags"].tags == {"more": 1} and found["good"].tags == {"k": 1} and found["good"].step is None
    assert "bytes of tags" in found["huge"].tags["left out"] and len(found) == 4


def test_tags_that_do_not_fit_into_a_record_make_several(run: chiplog.Run) -> None:
    """No line is longer than a reader takes."""
    for n in range(40):
        with run.span("s", tags={"n": n, "text": "x" * 100_000}):
            pass
    assert [span.tags["n"] for span in run.spans()] == list(range(40))
    assert len(list(chiplog.read(run.dir).records("spans"))) > 2
