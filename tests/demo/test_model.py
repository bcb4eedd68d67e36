import math

import numpy as np
import pytest

from chiplog.demo.model import Adam, Model, TokenBatch, batches, clip, read_corpus, split, windows


@pytest.fixture(scope="module")
def corpus():
    return read_corpus()


def small(alphabet: int, dtype=np.float64) -> Model:
    return Model(alphabet, context=4, embedding=3, hidden=5, rng=np.random.default_rng(0), dtype=dtype)


@pytest.mark.parametrize("name", ["embedding", "first", "first_bias", "second", "second_bias", "output", "output_bias"])
def test_the_gradient_is_that_of_the_loss(name):
    """Every weight's gradient agrees with the difference that a small change of it makes."""
    rng = np.random.default_rng(1)
    model = small(7)
    # The first weights of the last layer are near zero, where much of the gradient is too.
    model.weights["output"] *= 10
    batch = TokenBatch(rng.integers(0, 7, (6, 4)), rng.integers(0, 7, 6))
    gradient = model.backward(model.forward(batch))
    weight, small_change = model.weights[name], 1e-6
    for at in np.ndindex(weight.shape):
        was = weight[at]
        weight[at] = was + small_change
        more = model.forward(batch).loss
        weight[at] = was - small_change
        less = model.forward(batch).loss
        weight[at] = was
        assert gradient[name][at] == pytest.approx((more - less) / (2 * small_change), rel=1e-5, abs=1e-9)


def test_a_new_model_has_no_opinion(corpus):
    """The first loss is that of guessing among all characters alike."""
    model = Model(len(corpus.alphabet), rng=np.random.default_rng(0))
    loss = model.forward(windows(corpus.held_out, model.context)).loss
    assert loss == pytest.approx(math.log(len(corpus.alphabet)), abs=0.1)


def test_training_lowers_the_loss_on_text_it_has_not_seen(corpus):
    """A hundred steps bring the held-out loss from near 3.9 below 2.6 nats per character."""
    rng = np.random.default_rng(0)
    model = Model(len(corpus.alphabet), hidden=64, rng=rng)
    adam = Adam(model.weights)
    held_out = windows(corpus.held_out, model.context)
    before = model.forward(held_out).loss
    for _, batch in zip(range(100), batches(corpus.train, context=model.context, size=128, rng=rng), strict=False):
        gradient = model.backward(model.forward(batch))
        clip(gradient, 1.0)
        adam.step(gradient, 5e-3)
    assert before > 3.7
    assert model.forward(held_out).loss < 2.6


def test_clip_shortens_and_tells_the_length():
    """A gradient of length five becomes one of length one; a short one stays as it is."""
    gradient = {"a": np.array([3.0]), "b": np.array([[4.0]])}
    assert clip(gradient, 1.0) == 5.0
    assert gradient["a"][0] == pytest.approx(0.6) and gradient["b"][0, 0] == pytest.approx(0.8)
    assert clip(gradient, 2.0) == pytest.approx(1.0)
    assert gradient["a"][0] == pytest.approx(0.6)


def test_weights_keep_their_precision(corpus):
    """A step of Adam leaves single precision single: nothing in it is widened by accident."""
    model = small(len(corpus.alphabet), np.float32)
    batch = next(batches(corpus.train, context=4, size=8, rng=np.random.default_rng(0)))
    gradient = model.backward(model.forward(batch))
    Adam(model.weights, decay=0.1).step(gradient, 1e-3)
    assert {part.dtype for part in [*model.weights.values(), *gradient.values()]} == {np.dtype(np.float32)}


def test_batches_visit_every_place_once_a_round():
    """In one round every context of the text comes exactly once."""
    tokens = np.arange(35)
    stream = batches(tokens, context=3, size=8, rng=np.random.default_rng(0))
    seen = np.concatenate([next(stream).targets for _ in range(4)])
    assert sorted(seen) == list(range(3, 35))


def test_a_text_too_short_for_a_batch_is_refused():
    """The message has both lengths."""
    with pytest.raises(ValueError, match="at least 11 characters, not 5"):
        next(batches(np.arange(5), context=3, size=8, rng=np.random.default_rng(0)))


def test_a_window_is_followed_by_its_target():
    """Each context is the characters before its target."""
    contexts, targets = windows(np.arange(10), 4)
    assert contexts[2].tolist() == [2, 3, 4, 5] and targets[2] == 6


def test_paragraphs_are_held_out_whole():
    """Every tenth paragraph is for evaluation, and training never sees it."""
    corpus = split("\n\n".join(chr(ord("a") + number) * 3 for number in range(20)))
    assert corpus.decode(corpus.held_out) == "jjj\n\nttt"
    assert not set("jt") & set(corpus.decode(corpus.train))


def test_the_shipped_text_is_plain_prose(corpus):
    """The text is long enough to learn from, plain ASCII, and no paragraph comes twice."""
    text = corpus.decode(corpus.train)
    paragraphs = text.split("\n\n")
    assert len(text) > 20_000 and text.isascii()
    assert len(set(paragraphs)) == len(paragraphs)
    assert corpus.decode(corpus.encode("A ship, five knots.")) == "A ship, five knots."


def test_a_model_writes_from_a_prompt(corpus):
    """As many characters as asked for, the same ones for the same seed."""
    model = Model(len(corpus.alphabet), rng=np.random.default_rng(0))
    start = corpus.encode("The ship was not fast")
    written = [model.write(start, 30, rng=np.random.default_rng(5)).tolist() for _ in range(2)]
    assert len(written[0]) == 30 and written[0] == written[1]


def test_a_prompt_too_short_is_refused(corpus):
    """The model needs a full context to go on from."""
    model = Model(len(corpus.alphabet), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 12 characters, not 3"):
        model.write(corpus.encode("The"), 5, rng=np.random.default_rng(0))
