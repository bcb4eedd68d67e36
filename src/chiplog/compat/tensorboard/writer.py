"""`SummaryWriter`, with the methods of the classes of torch and tensorboardX."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import chiplog
from chiplog.compat.shared.writer_recording import Recording
from chiplog.compat.tensorboard.originals import PACKAGES, original
from chiplog.core import messages
from chiplog.core.guarded import failed
from chiplog.core.run import Run

WHO = "SummaryWriter"
EVENT_FILES = "CHIPLOG_EVENT_FILES"
OPTIONS = ("purge_step", "max_queue", "flush_secs", "filename_suffix")  # of the originals, for event files
# Methods of the originals whose content has no place in a run.
NOT_KEPT = (
    "add_graph", "add_onnx_graph", "add_openvino_graph", "add_embedding", "add_mesh", "add_custom_scalars",
    "add_custom_scalars_marginchart", "add_custom_scalars_multilinechart", "export_scalars_to_json",
)  # fmt: skip


class SummaryWriter:
    """Records what TensorBoard's writer is given, in the script's current run, or in one of its own named `log_dir`.

    With `event_files=True`, or `CHIPLOG_EVENT_FILES=1`, the original writes event files to `log_dir`, too. Further
    settings are those of `chiplog.init`. Without `global_step`, the calls with a tag are counted.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
        *,
        logdir: str | os.PathLike[str] | None = None,
        event_files: bool | None = None,
        run: Run | None = None,
        **settings: Any,
    ) -> None:
        chosen = logdir or log_dir  # tensorboardX writes it in one word
        now = time.strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(chosen) if chosen else os.path.join("runs", f"{now}_{platform.node()}{comment}")  # noqa: PTH118
        self.purge_step = purge_step
        self._kept = Recording(WHO, self.log_dir, run, settings)
        options = dict(zip(OPTIONS, (purge_step, max_queue, flush_secs, filename_suffix), strict=True))
        if event_files is None:
            event_files = os.environ.get(EVENT_FILES, "").lower() not in ("", "0", "false", "no")
        self._original = _original(self.log_dir, options) if event_files else None

    @property
    def run(self) -> Run:
        """The run in which everything is kept."""
        return self._kept.run

    def get_logdir(self) -> str:
        """The directory that was given; event files are there if they were asked for."""
        return self.log_dir

    # -- numbers -------------------------------------------------------------------------------------------------------

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: Any = None, *more: Any, **named: Any
    ) -> None:
        self._kept.log(tag, scalar_value, global_step, walltime)
        self._pass_on("add_scalar", tag, scalar_value, global_step, walltime, *more, **named)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: Any = None
    ) -> None:
        self._kept.scalars(main_tag, tag_scalar_dict, global_step, walltime)
        self._pass_on("add_scalars", main_tag, tag_scalar_dict, global_step, walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], hparam_domain_discrete: Any = None,
        run_name: Any = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        self._kept.hyperparameters(hparam_dict, metric_dict, global_step)
        self._pass_on("add_hparams", hparam_dict, metric_dict, hparam_domain_discrete, run_name, global_step)

    # -- pictures, text, and the rest ----------------------------------------------------------------------------------

    def add_text(self, tag: str, text_string: Any, global_step: Any = None, walltime: Any = None) -> None:
        self._kept.log(tag, chiplog.Text(text_string), global_step, walltime)
        self._pass_on("add_text", tag, text_string, global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: Any = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        self._kept.histogram(tag, values, global_step, bins, max_bins)
        self._pass_on("add_histogram", tag, values, global_step, bins, walltime, max_bins)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: Any, sum: Any, sum_squares: Any, bucket_limits: Any,
        bucket_counts: Any, global_step: Any = None, walltime: Any = None,
    ) -> None:  # fmt: skip
        self._kept.raw_histogram(tag, min, bucket_limits, bucket_counts, global_step)
        passed = tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step, walltime
        self._pass_on("add_histogram_raw", *passed)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None, dataformats: str = "CHW"
    ) -> None:
        self._kept.images(tag, img_tensor, global_step, dataformats)
        self._pass_on("add_image", tag, img_tensor, global_step, walltime, dataformats)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None, dataformats: str = "NCHW"
    ) -> None:
        self._kept.images(tag, img_tensor, global_step, dataformats)
        self._pass_on("add_images", tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None, walltime: Any = None,
        rescale: float = 1, dataformats: str = "CHW", labels: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        self._kept.not_kept("add_image_with_boxes(box_tensor)", "the image itself is kept")
        self._kept.images(tag, img_tensor, global_step, dataformats)
        passed = tag, img_tensor, box_tensor, global_step, walltime, rescale, dataformats, labels
        self._pass_on("add_image_with_boxes", *passed, **more)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: Any = None
    ) -> None:
        self._kept.log(tag, chiplog.Image(figure), global_step, walltime)
        self._pass_on("add_figure", tag, figure, global_step, False, walltime)
        if close:
            _close(figure)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: Any = None
    ) -> None:
        self._kept.video(tag, vid_tensor, fps, global_step)
        self._pass_on("add_video", tag, vid_tensor, global_step, fps, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100, walltime: Any = None
    ) -> None:
        self._kept.sound(tag, snd_tensor, sample_rate, global_step)
        self._pass_on("add_audio", tag, snd_tensor, global_step, sample_rate, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: Any = None) -> None:
        self._kept.histogram(tag, tensor, global_step, 64, None)
        self._pass_on("add_tensor", tag, tensor, global_step, walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: Any = None,
    ) -> None:  # fmt: skip
        self._kept.pr_curve(tag, labels, predictions, weights, num_thresholds, global_step)
        self._pass_on("add_pr_curve", tag, labels, predictions, global_step, num_thresholds, weights, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: Any = None,
    ) -> None:  # fmt: skip
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        self._kept.raw_pr_curve(tag, counts, global_step)
        passed = *counts, precision, recall, global_step, num_thresholds, weights, walltime
        self._pass_on("add_pr_curve_raw", tag, *passed)

    def use_metadata(self, **metadata: Any) -> AbstractContextManager[None]:
        """tensorboardX's context, in which tags get a title and a description."""
        self._kept.not_kept("use_metadata", f"{', '.join(metadata)} would describe tags")
        return nullcontext()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in NOT_KEPT:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def note(*args: Any, **named: Any) -> None:
            self._kept.not_kept(name, "a run has no place for it")
            self._pass_on(name, *args, **named)

        return note

    # -- the end -------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self._kept.flush()
        self._pass_on("flush")

    def close(self) -> None:
        """End the run, if it was started here; a later call continues it as another attempt."""
        self._kept.finish()
        self._pass_on("close")

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._kept.finish(error)
        self._pass_on("close")

    def _pass_on(self, method: str, *args: Any, **named: Any) -> None:
        if self._original is not None:
            try:
                getattr(self._original, method)(*args, **named)
            except Exception as error:
                failed(f"{WHO}: event files: {method}", error)


def _original(log_dir: str, options: Mapping[str, Any]) -> Any:
    """The writer of torch or tensorboardX, whichever is installed."""
    for package in PACKAGES:
        try:
            return original(package).SummaryWriter(log_dir, **options)
        except ImportError:
            continue
        except Exception as error:
            failed(f"{WHO}: event files", error)
            return None
    messages.say(
        f"{WHO}: event files need torch and tensorboard, or tensorboardX: pip install tensorboard; none are written"
    )
    return None


def _close(figure: Any) -> None:
    """Close figures of matplotlib, as the original does."""
    try:
        from matplotlib import pyplot

        for one in figure if isinstance(figure, (list, tuple)) else [figure]:
            pyplot.close(one)
    except Exception as error:
        failed(f"{WHO}: closing a figure", error)
