"""GRPO in miniature, with the metrics and the trace of a real job: actor, rollout and reference on meshes of their own.

A policy learns to answer sums of two digits. `python examples/grpo.py [steps]` runs on any CPU in a few seconds and
leaves a run in `runs/`, event files in `logs/` and a Perfetto trace in `traces/`.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")  # four devices on a CPU

import jax
import jax.numpy as jnp
import numpy as np

from chiplog.frontends.tunix.rl import rl_cluster
from chiplog.frontends.tunix.rl.rl_cluster import Role
from chiplog.frontends.tunix.sft import metrics_logger
from chiplog.metrics import rl

PROMPTS, GROUP, MICRO_BATCHES = 8, 8, 2  # questions a micro-batch, answers each, micro-batches a step
LEARNING_RATE, CLIP, BETA = 0.5, 0.2, 0.01
SECOND = {"refer_inference": "reference_inference", "peft_train_step": "peft_train"}  # other names in version 2


def logits(weights: jax.Array, questions: jax.Array) -> jax.Array:
    return weights[questions[:, 0], questions[:, 1]]


@jax.jit
def sample(weights: jax.Array, questions: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Answers and their log-probabilities."""
    said = jax.random.categorical(key, logits(weights, questions))
    return said, log_prob(weights, questions, said)


@jax.jit
def log_prob(weights: jax.Array, questions: jax.Array, answers: jax.Array) -> jax.Array:
    return jnp.take_along_axis(jax.nn.log_softmax(logits(weights, questions)), answers[:, None], 1)[:, 0]


@jax.jit
@partial(jax.value_and_grad, has_aux=True)
def loss_of(weights: jax.Array, batch: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
    new = log_prob(weights, batch["questions"], batch["answers"])
    ratio = jnp.exp(new - batch["log_probs"])
    unclipped = -ratio * batch["advantages"]
    clipped = -jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * batch["advantages"]
    kl = jnp.mean(jnp.exp(batch["reference"] - new) - (batch["reference"] - new) - 1)
    probabilities = jax.nn.log_softmax(logits(weights, batch["questions"]))
    aux = {
        "kl": kl,
        "pg_clipfrac": jnp.mean(clipped > unclipped),
        "loss/entropy": -jnp.mean(jnp.sum(jnp.exp(probabilities) * probabilities, -1)),
    }
    return jnp.mean(jnp.maximum(unclipped, clipped)) + BETA * kl, aux


def correct(questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
    return (questions.sum(1) == answers).astype(float)


def close(questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
    return 0.1 * (np.abs(questions.sum(1) - answers) <= 2)


class Job:
    """The loop, with what it says about itself."""

    def __init__(self, cluster: rl_cluster.RLCluster, actor: jax.Device, rollout: jax.Device, reference: jax.Device):
        self.cluster, self.perf, self.perf_v2 = cluster, cluster.perf, cluster.perf_v2
        self.actor, self.rollout, self.reference = actor, rollout, reference
        start = jnp.zeros((10, 10, 19))
        self.weights = jax.device_put(start, actor)
        self.rollout_weights = jax.device_put(start, rollout)
        self.reference_weights = jax.device_put(start, reference)
        self.random = np.random.default_rng(0)
        self.compiled = None

    def step(self) -> None:
        with self.cluster.global_step() as number:
            with self.span("data_loading"):
                questions = [
                    np.repeat(self.random.integers(0, 10, (PROMPTS, 2)), GROUP, axis=0) for _ in range(MICRO_BATCHES)
                ]
            rollouts: queue.Queue = queue.Queue()
            worker = threading.Thread(target=self.roll_out, args=(number, questions, rollouts), name="rollout worker")
            worker.start()
            with self.group("mini_batch_step"):
                for _ in questions:
                    with self.group("micro_batch_steps"):
                        began = time.perf_counter()
                        batch = rollouts.get()
                        self.cluster.buffer_metrics(rl.dequeue_time(time.perf_counter() - began))
                        self.learn(batch)
            worker.join()
            with self.span("weight_sync", self.rollout) as busy_with:
                self.rollout_weights = jax.device_put(self.weights, self.rollout)
                busy_with(self.rollout_weights)

    @contextmanager
    def span(self, name: str, device: jax.Device | None = None, **tags: int) -> Iterator[Callable[[jax.Array], None]]:
        """A span in both versions of tracing; gives a function that is called with what the device works on."""
        devices = None if device is None else [device]
        with (
            self.perf.span(name, devices) as first,
            self.perf_v2.span(SECOND.get(name, name), devices, tags) as second,
        ):

            def busy_with(work: jax.Array) -> None:
                first.device_end(work)
                second.async_end(work)

            yield busy_with

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        with self.perf.span_group(name), self.perf_v2.span(name):
            yield

    def roll_out(self, step: int, questions: list[np.ndarray], rollouts: queue.Queue) -> None:
        for at, asked in enumerate(questions):
            with self.span("rollout", self.rollout, step=step, group_id=at) as busy_with:
                key = jax.random.key(1000 * step + at)
                there = jax.device_put(asked, self.rollout)
                answers, log_probs = sample(self.rollout_weights, there, jax.device_put(key, self.rollout))
                busy_with(answers)
            rollouts.put({"questions": asked, "answers": np.asarray(answers), "log_probs": np.asarray(log_probs)})

    def learn(self, batch: dict) -> None:
        questions, answers = batch["questions"], batch["answers"]
        with self.span("refer_inference", self.reference) as busy_with:
            there = jax.device_put((questions, answers), self.reference)
            batch["reference"] = log_prob(self.reference_weights, *there)
            busy_with(batch["reference"])
        with self.span("advantage_computation"):
            rewards = np.stack([correct(questions, answers), close(questions, answers)], axis=1)
            batch["advantages"] = advantages(rewards.sum(1))
            self.say(batch, rewards)
        with self.group("actor_training"):
            with self.span("peft_train_step", self.actor) as busy_with:
                (loss, aux), gradient = self.train(jax.device_put(batch, self.actor))
                self.weights = self.weights - LEARNING_RATE * gradient * len(answers)
                busy_with(self.weights)
            norm = jnp.linalg.norm(gradient)
            self.cluster.actor_trainer.end_micro_step({"loss": loss, "grad_norm": norm, **aux})

    def train(self, batch: dict) -> tuple:
        if self.compiled is None:
            self.compiled = loss_of.lower(self.weights, batch).compile()
            flops = self.compiled.cost_analysis()["flops"]
            self.cluster.actor_trainer.flops_per_step = flops * MICRO_BATCHES
        return self.compiled(self.weights, batch)

    def say(self, batch: dict, rewards: np.ndarray) -> None:
        """What a rollout was like: its rewards, its advantages, its lengths, and its texts."""
        prompts = [f"{a}+{b}=" for a, b in batch["questions"]]
        completions = [str(answer) for answer in batch["answers"]]
        step = self.cluster.global_steps
        ids = [f"{step}_{at}" for at in range(len(prompts))]
        for metrics in (
            rl.rewards(rewards, ["correct", "close"]),
            rl.statistics("score", rewards.sum(1)),
            rl.statistics("advantages", batch["advantages"]),
            rl.kl_penalty((batch["log_probs"] - np.asarray(batch["reference"]))[:, None]),
            rl.lengths([len(text) for text in completions]),
            rl.samples(prompts, completions, ids),
        ):
            self.cluster.buffer_metrics(metrics)


def advantages(rewards: np.ndarray) -> np.ndarray:
    """Of each answer, against the others to the same question."""
    groups = rewards.reshape(PROMPTS, GROUP)
    spread = groups.std(1, keepdims=True) + 1e-6
    return ((groups - groups.mean(1, keepdims=True)) / spread).ravel()


def main(steps: int = 5) -> None:
    devices = jax.devices()
    actor, rollout, reference = devices[0], devices[1], devices[2]
    meshes = {
        role: jax.sharding.Mesh(np.array([device]), ("x",))
        for role, device in ((Role.ACTOR, actor), (Role.ROLLOUT, rollout), (Role.REFERENCE, reference))
    }
    training = rl_cluster.RLTrainingConfig(
        metrics_logging_options=metrics_logger.MetricsLoggerOptions(log_dir="logs", project_name="grpo"),
        gradient_accumulation_steps=MICRO_BATCHES,
        perf_metrics_options={"enable_perf_v2": True, "trace_dir": "traces"},
    )
    config = rl_cluster.ClusterConfig(role_to_mesh=meshes, training_config=training)
    with rl_cluster.RLCluster(actor="policy", cluster_config=config) as cluster:
        cluster.actor_trainer.optimizer = type("Optimizer", (), {"hyperparams": {"learning_rate": LEARNING_RATE}})
        job = Job(cluster, actor, rollout, reference)
        for _ in range(steps):
            job.step()
    run = cluster.metrics_logger.run
    print(f"{run.dir}: rewards/mean {cluster.metrics_logger.get_metric_history('rewards', 'mean', 'train').round(3)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
