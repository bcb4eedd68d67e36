"""A stand-in for CLU's metric writers: `from chiplog.compat.clu import MetricWriter`; CLU itself is not needed.

The same calls as `clu.metric_writers.MetricWriter`, kept by chiplog; nothing raises into a training loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import chiplog
from chiplog.compat.shared.writer_recording import Recording
from chiplog.core.run import Run


class MetricWriter:
    """Records what CLU's writers are given, in the script's current run, or in one of its own.

    The settings are those of `chiplog.init`.
    """

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        self._kept = Recording("MetricWriter", None, run, settings)

    @property
    def run(self) -> Run:
        """The run in which everything is kept."""
        return self._kept.run

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        self._kept.log("", scalars, step, None)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        self._kept.log("", {name: chiplog.Text(text) for name, text in dict(texts).items()}, step, None)

    def write_images(self, step: int, images: Mapping[str, Any]) -> None:
        for name, batch in dict(images).items():
            self._kept.images(name, batch, step, "NHWC" if getattr(batch, "ndim", 4) == 4 else "HWC")

    def write_histograms(
        self, step: int, arrays: Mapping[str, Any], num_buckets: Mapping[str, int] | None = None
    ) -> None:
        for name, array in dict(arrays).items():
            self._kept.histogram(name, array, step, (num_buckets or {}).get(name, 30), None)

    def write_audios(self, step: int, audios: Mapping[str, Any], *, sample_rate: int) -> None:
        for name, batch in dict(audios).items():
            self._kept.sounds(name, batch, sample_rate, step)

    def write_videos(self, step: int, videos: Mapping[str, Any]) -> None:
        for name, batch in dict(videos).items():
            self._kept.videos(name, batch, 10, step)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        self._kept.hyperparameters(hparams, {}, None)

    def write_summaries(self, step: int, values: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002
        for name, array in dict(values).items():
            self._kept.histogram(name, array, step, 30, None)

    def write_pointcloud(self, step: int, point_clouds: Any, **more: Any) -> None:  # noqa: ARG002
        self._kept.not_kept("write_pointcloud", "a run has no place for it")

    def flush(self) -> None:
        self._kept.flush()

    def close(self) -> None:
        """End the run, if it was started here; a later call continues it as another attempt."""
        self._kept.finish()

    def __enter__(self) -> MetricWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._kept.finish(error)
