"""The demo: train the small model, record everything, and show what was recorded.

The code between `chiplog.init` and the end of its block is what your own training script would look like.
"""

from __future__ import annotations

import math
import shlex
import sys
import textwrap
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import NamedTuple, TextIO

import numpy as np

import chiplog
from chiplog.core import display, records
from chiplog.core.display import Screen
from chiplog.core.errors import ChiplogError
from chiplog.core.messages import clean
from chiplog.core.run import Run
from chiplog.core.values.media import Text
from chiplog.demo.model import Adam, Corpus, Model, TokenBatch, batches, clip, read_corpus, windows
from chiplog.store.reader import Stored
from chiplog.views.charts.text_plot import line_plot

PROMPT = "The captain looked at the sea and "
SAMPLE = 200  # characters


class Recipe(NamedTuple):
    """The hyperparameters of a demo run; all of them are in its config."""

    context: int = 12
    embedding: int = 24
    hidden: int = 192
    batch: int = 512
    lr: float = 4e-3
    warmup: float = 0.04  # of the run
    decay: float = 1.2  # strong, because the model would memorize a text this short
    clip: float = 1.0
    evals: int = 10
    seed: int = 1


def demo(
    *,
    dir: str | Path | None = None,
    seconds: float = 20.0,
    steps: int | None = None,
    sinks: str | Sequence[object] = "console,csv",
    out: TextIO | None = None,
    screen: Screen | None = None,
    command: str = "chiplog",
) -> int:
    """Train for about `seconds`, or for `steps`; show the loss, a sample and what to try next; return the exit code.

    An interrupt stops the training early and shows what was recorded so far.
    """
    if not 0 < seconds < math.inf:
        raise ValueError(f"the demo needs a positive number of seconds, not {seconds!r}")
    out = sys.stdout if out is None else out
    screen = screen or display.screen(out, {"COLUMNS": "80"})
    run, interrupted = _train(Recipe(), seconds, steps, dir, sinks)
    try:
        stored = chiplog.read(run.dir)
    except ChiplogError as error:
        out.write(f"nothing to show: {error}\n")
        return 1
    out.write(_report(stored, screen, named=dir is None, command=command))
    out.flush()
    return 130 if interrupted else 0


def _train(
    recipe: Recipe, seconds: float, steps: int | None, dir: str | Path | None, sinks: str | Sequence[object]
) -> tuple[Run, bool]:
    start = perf_counter()
    corpus = read_corpus()
    left = math.inf
    if steps is None:
        time_of_step = _measure(recipe, corpus, min(1.0, 0.1 * seconds))
        left = max(0.1 * seconds, start + seconds - perf_counter())
        # The rest of the time is for evaluations, which have the same number of steps between them.
        steps = recipe.evals * max(1, int(0.85 * left / time_of_step / recipe.evals))
    started = perf_counter()
    rng = np.random.default_rng(recipe.seed)
    model = _new_model(recipe, corpus, rng)
    adam = Adam(model.weights, decay=recipe.decay)
    loader = batches(corpus.train, context=recipe.context, size=recipe.batch, rng=rng)
    held_out = windows(corpus.held_out, recipe.context)
    config = {**recipe._asdict(), "steps": steps, "seconds": seconds, "parameters": model.size}

    run = chiplog.init(project="demo", config=config, sinks=sinks, dir=dir)
    try:
        with run:
            run.event("dataset", split="train", tokens=len(corpus.train), alphabet=len(corpus.alphabet))
            for step, batch in enumerate(run.steps(islice(loader, steps), tokens=recipe.batch, total=steps)):
                late = (perf_counter() - started) / left
                lr = _lr(recipe, max((step + 1) / steps, late))
                with run.span("forward"):
                    done = model.forward(batch)
                with run.span("backward"):
                    gradient = model.backward(done)
                    norm = clip(gradient, recipe.clip)
                with run.span("optimizer"):
                    adam.step(gradient, lr)
                run.log({"train/loss": done.loss, "train/grad_norm": norm, "train/lr": lr})
                if step == 0 or (step + 1) % (steps // recipe.evals) == 0 or late >= 1:
                    _evaluate(run, model, held_out, corpus, step)
                if late >= 1:
                    break
    except KeyboardInterrupt:
        return run, True
    return run, False


def _evaluate(run: Run, model: Model, held_out: TokenBatch, corpus: Corpus, step: int) -> None:
    with run.span("eval"):
        loss = model.forward(held_out).loss
        run.eval({"loss": loss, "tokens": len(held_out.targets)}, step=step)
    with run.span("sample"):
        rng = np.random.default_rng(step)
        text = PROMPT + corpus.decode(model.write(corpus.encode(PROMPT), SAMPLE, rng=rng))
        run.log({"sample": Text(text)}, step=step)
        run.table("samples", [{"step": step, "loss": loss, "text": text}], step=step)


def _measure(recipe: Recipe, corpus: Corpus, seconds: float) -> float:
    """How long a step takes on this machine, from a few steps of a model that is thrown away."""
    started = perf_counter()
    rng = np.random.default_rng(recipe.seed)
    model = _new_model(recipe, corpus, rng)
    adam = Adam(model.weights)
    times = []
    for batch in batches(corpus.train, context=recipe.context, size=recipe.batch, rng=rng):
        start = perf_counter()
        gradient = model.backward(model.forward(batch))
        clip(gradient, recipe.clip)
        adam.step(gradient, recipe.lr)
        times.append(perf_counter() - start)
        if len(times) >= 8 and perf_counter() - started > seconds:
            break
    # The lower quartile: too many steps end at the deadline, too few would end the demo early.
    return quantiles(times)[0]


def _new_model(recipe: Recipe, corpus: Corpus, rng: np.random.Generator) -> Model:
    context, embedding, hidden, *_ = recipe
    return Model(len(corpus.alphabet), context=context, embedding=embedding, hidden=hidden, rng=rng)


def _lr(recipe: Recipe, done: float) -> float:
    """The learning rate after a fraction of the run: warm-up, then half a cosine down to a twentieth."""
    if done < recipe.warmup:
        return recipe.lr * done / recipe.warmup
    return recipe.lr * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def _report(stored: Stored, screen: Screen, *, named: bool, command: str) -> str:
    """The end of the demo, read from the run directory alone."""
    series = [stored.series(name, missing_ok=True) for name in ("train/loss", "eval/loss")]
    curves = [(one.name, one.steps, one.values) for one in series]
    title = "Loss in nats per character"
    smooth = round(1 - 50 / max(100, len(series[0])), 2)
    plot = line_plot(
        curves, width=screen.width, height=14, title=title, colour=screen.colour, ascii=screen.ascii, smooth=smooth
    )
    which = stored.id if named else shlex.quote(str(stored.path))
    samples = [record.text for record in stored.records(kind="text") if isinstance(record, records.TextRecord)]
    lines = ["", plot, ""]
    if samples:
        text = textwrap.fill(clean(" ".join(samples[-1].split())), max(20, screen.width - 4))
        lines += ["The model wrote:", textwrap.indent(text, "  "), ""]
    lines += [
        f"The run is stored in {clean(str(stored.path))}",
        "Try next:",
        f"  {command} show {which}",
        f"  {command} plot {which} train/grad_norm",
        f"  {command} export {which} --to csv",
    ]
    return "\n".join(lines) + "\n"
