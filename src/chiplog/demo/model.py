"""A character-level language model in numpy: an embedding, two hidden layers, a backward pass by hand, and Adam."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.floating[Any]]
Tokens = NDArray[np.int64]
Weights = dict[str, Floats]

HELD_OUT_EVERY = 10  # paragraphs


class TokenBatch(NamedTuple):
    """Contexts, one per row, and the character that follows each."""

    contexts: Tokens
    targets: Tokens


class Corpus(NamedTuple):
    """A text as numbers; every tenth paragraph is held out for evaluation."""

    alphabet: str
    train: Tokens
    held_out: Tokens

    def encode(self, text: str) -> Tokens:
        """A text as numbers; characters that are not in the corpus are left out."""
        place = {char: number for number, char in enumerate(self.alphabet)}
        return np.array([place[char] for char in text if char in place], dtype=np.int64)

    def decode(self, tokens: Tokens) -> str:
        return "".join(self.alphabet[token] for token in tokens)


def read_corpus() -> Corpus:
    """The text that comes with the package."""
    return split(files("chiplog.demo").joinpath("text.txt").read_text(encoding="utf-8"))


def split(text: str) -> Corpus:
    """A text as a corpus."""
    paragraphs = text.strip().split("\n\n")
    held_out = paragraphs[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    train = [paragraph for number, paragraph in enumerate(paragraphs, 1) if number % HELD_OUT_EVERY]
    nothing = np.zeros(0, dtype=np.int64)
    corpus = Corpus("".join(sorted(set(text))), nothing, nothing)
    parts = (corpus.encode("\n\n".join(part)) for part in (train, held_out))
    return Corpus(corpus.alphabet, *parts)


def windows(tokens: Tokens, context: int) -> TokenBatch:
    """Every context of a text, and the character that follows it."""
    rows = np.lib.stride_tricks.sliding_window_view(tokens, context + 1)
    return TokenBatch(rows[:, :-1], rows[:, -1])


def batches(tokens: Tokens, *, context: int, size: int, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """Random contexts, endlessly; each pass visits every position of the text at most once."""
    every = windows(tokens, context)
    if len(every.targets) < size:
        raise ValueError(f"a batch of {size} needs at least {size + context} characters, not {len(tokens)}")
    while True:
        order = rng.permutation(len(every.targets))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield TokenBatch(every.contexts[chosen], every.targets[chosen])


class Pass(NamedTuple):
    """A forward pass: the loss in nats per character, and what the backward pass needs."""

    loss: float
    batch: TokenBatch
    inputs: Floats
    first: Floats
    second: Floats
    probabilities: Floats


class Model:
    """Predicts the next character from the last `context` ones: their embeddings side by side, then two layers."""

    def __init__(
        self,
        alphabet: int,
        *,
        context: int = 12,
        embedding: int = 24,
        hidden: int = 192,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.context = context

        def draw(rows: int, columns: int, scale: float) -> Floats:
            return (rng.standard_normal((rows, columns)) * scale).astype(dtype)

        wide = context * embedding
        self.weights: Weights = {
            "embedding": draw(alphabet, embedding, 1.0),
            "first": draw(wide, hidden, wide**-0.5),
            "first_bias": np.zeros(hidden, dtype),
            "second": draw(hidden, hidden, hidden**-0.5),
            "second_bias": np.zeros(hidden, dtype),
            # Near zero, so that the first loss is that of uniform predictions: ln(alphabet).
            "output": draw(hidden, alphabet, 0.1 * hidden**-0.5),
            "output_bias": np.zeros(alphabet, dtype),
        }

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(weight.size for weight in self.weights.values())

    def forward(self, batch: TokenBatch) -> Pass:
        """The mean loss of a batch."""
        weights = self.weights
        inputs = weights["embedding"][batch.contexts].reshape(len(batch.targets), -1)
        first = np.tanh(inputs @ weights["first"] + weights["first_bias"])
        second = np.tanh(first @ weights["second"] + weights["second_bias"]) + first
        logits = second @ weights["output"] + weights["output_bias"]
        probabilities = _softmax(logits)
        true = probabilities[np.arange(len(batch.targets)), batch.targets]
        loss = -np.log(np.maximum(true, np.finfo(true.dtype).tiny)).mean()
        return Pass(float(loss), batch, inputs, first, second, probabilities)

    def backward(self, done: Pass) -> Weights:
        """The gradient of the loss, by weight."""
        weights, (contexts, targets) = self.weights, done.batch
        logits = done.probabilities.copy()
        logits[np.arange(len(targets)), targets] -= 1
        logits /= len(targets)
        second = logits @ weights["output"].T
        raw_second = second * (1 - (done.second - done.first) ** 2)
        raw_first = (second + raw_second @ weights["second"].T) * (1 - done.first**2)
        inputs = (raw_first @ weights["first"].T).reshape(*contexts.shape, -1)
        return {
            "embedding": _gather(contexts, inputs, len(weights["embedding"])),
            "first": done.inputs.T @ raw_first,
            "first_bias": raw_first.sum(axis=0),
            "second": done.first.T @ raw_second,
            "second_bias": raw_second.sum(axis=0),
            "output": done.second.T @ logits,
            "output_bias": logits.sum(axis=0),
        }

    def write(self, start: Tokens, length: int, *, rng: np.random.Generator, temperature: float = 0.6) -> Tokens:
        """Continue a text by sampling one character after another; returns the new characters."""
        if len(start) < self.context:
            raise ValueError(f"the model continues a text of at least {self.context} characters, not {len(start)}")
        text = list(start)
        for _ in range(length):
            seen = TokenBatch(np.array([text[-self.context :]]), np.zeros(1, dtype=np.int64))
            probabilities = self.forward(seen).probabilities[0].astype(np.float64) ** (1 / temperature)
            text.append(rng.choice(len(probabilities), p=probabilities / probabilities.sum()))
        return np.array(text[len(start) :], dtype=np.int64)


class Adam:
    """Adam with decoupled weight decay on matrices (Loshchilov and Hutter, 2019), in place."""

    BETAS = (0.9, 0.99)

    def __init__(self, weights: Weights, *, decay: float = 0.0) -> None:
        self._weights, self._decay = weights, decay
        self._mean = {name: np.zeros_like(weight) for name, weight in weights.items()}
        self._square = {name: np.zeros_like(weight) for name, weight in weights.items()}
        self._count = 0

    def step(self, gradient: Mapping[str, Floats], lr: float) -> None:
        self._count += 1
        slow, slower = self.BETAS
        unbias = (1 - slower**self._count) ** 0.5
        rate = lr / (1 - slow**self._count)
        for name, weight in self._weights.items():
            new, mean, square = gradient[name], self._mean[name], self._square[name]
            mean += (1 - slow) * (new - mean)
            square += (1 - slower) * (new * new - square)
            if weight.ndim > 1:
                np.multiply(weight, 1 - lr * self._decay, out=weight)
            np.subtract(weight, rate * mean / (np.sqrt(square) / unbias + 1e-8), out=weight)


def clip(gradient: Weights, limit: float) -> float:
    """Scale a gradient down to a norm, in place; returns the norm it had."""
    norm = float(np.sqrt(sum(float(np.vdot(part, part)) for part in gradient.values())))
    if norm > limit:
        for part in gradient.values():
            np.multiply(part, limit / norm, out=part)
    return norm


def _softmax(logits: Floats) -> Floats:
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Floats = grown / grown.sum(axis=1, keepdims=True)
    return probabilities


def _gather(contexts: Tokens, gradient: Floats, alphabet: int) -> Floats:
    """The gradient of each character's embedding: the sum over all its positions."""
    # A product with the one-hot matrix: several times faster than np.add.at.
    places = contexts.reshape(-1)
    hot = np.zeros((alphabet, len(places)), gradient.dtype)
    hot[places, np.arange(len(places))] = 1
    total: Floats = hot @ gradient.reshape(len(places), -1)
    return total
