"""Values of summaries, as TensorFlow, torch and tensorboardX encode them, against TensorBoard's own messages."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import struct_pb2
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.histogram import summary_v2 as histogram_v2
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.scalar import summary_v2 as scalar_v2
from tensorboard.plugins.text import summary_v2 as text_v2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto
from torch.utils.tensorboard import SummaryWriter

from chiplog.core import records
from chiplog.store.foreign.formats.tensorboard import summaries
from chiplog.store.foreign.formats.tensorboard.summaries import HparamsSession, Value
from chiplog.store.foreign.protocol import Losses, MediaFile
from tests.support.foreign_stores import opened, values

TYPES = ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool")
NUMBERS = [np.array(number, kind) for kind in TYPES for number in (0, 1)]
NUMBERS += [np.array(-3, kind) for kind in TYPES if kind[0] in "fi"]
NUMBERS += [np.array(1.5, kind) for kind in TYPES if kind[0] == "f"]
NUMBERS += [np.array(2**31 + 7, kind) for kind in ("f8", "i8", "u4", "u8")]
NUMBERS += [np.array(2**64 - 2**11, "u8")]


def of(plugin: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def hparams(**content: object) -> Summary:
    return one(tag="_hparams_", metadata=of("hparams", HParamsPluginData(**content).SerializeToString()))  # type: ignore[arg-type]


def read(summary: Summary, session: HparamsSession | None = None, losses: Losses | None = None) -> list[Value]:
    data = summary.SerializeToString()
    return summaries.values(data, 5, 7, session or HparamsSession(), losses or Losses())


def one(**fields: object) -> Summary:
    return Summary(value=[Summary.Value(**fields)])  # type: ignore[arg-type]


def write_events(folder: Path, *events: Event) -> None:
    writer = EventFileWriter(str(folder))
    for event in events:
        writer.add_event(event)
    writer.close()


def test_tensors_of_tensorflow_2_are_scalars_histograms_and_texts(tmp_path: Path) -> None:
    """TensorFlow 2 stores everything as tensors, and only the metadata tell what they are."""
    folder = tmp_path / "run"
    write_events(
        folder,
        *(Event(wall_time=2e9 + step, step=step, summary=scalar_v2.scalar_pb("loss", 0.1 * step)) for step in range(9)),
        Event(wall_time=2e9, step=3, summary=histogram_v2.histogram_pb("w", np.arange(64.0), buckets=4)),
        Event(wall_time=2e9, step=4, summary=text_v2.text_pb("t", "hello")),
    )
    (run,) = opened(folder, tmp_path / "cache")
    assert values(run)["loss"] == [(step, float(np.float32(0.1 * step))) for step in range(9)]
    (histogram,) = run.records("histogram")
    assert isinstance(histogram, records.HistogramRecord) and histogram.counts == [16.0] * 4
    assert np.allclose(np.array(histogram.edges, float), np.linspace(0, 63, 5))
    (text,) = run.records("text")
    assert isinstance(text, records.TextRecord) and text.text == "hello"


def test_hyperparameters_are_the_config(tmp_path: Path) -> None:
    """`add_hparams` of torch becomes the config of the run it opens."""
    with SummaryWriter(str(tmp_path / "run")) as writer:
        writer.add_hparams({"lr": 0.1, "layers": 4, "name": "x", "on": True}, {"best": 0.5}, run_name="trial")
    (trial,) = [run for run in opened(tmp_path / "run", tmp_path / "cache") if run.name == "trial"]
    assert trial.config == {"lr": 0.1, "layers": 4, "name": "x", "on": True}
    assert trial.state == "finished"


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: f"{value.dtype}-{value}")
def test_a_scalar_of_any_type_is_its_number(value: np.ndarray) -> None:
    """In the field of its type or as bytes, and a zero that is left out."""
    by_field, by_bytes = make_tensor_proto(value), TensorProto(dtype=make_tensor_proto(value).dtype)
    by_bytes.tensor_content = value.tobytes()
    for tensor in (by_field, by_bytes):
        (decoded,) = read(one(tag="x", metadata=of("scalars"), tensor=tensor))
        assert repr(decoded.number) == repr(float(value))


def test_a_bfloat_is_its_number() -> None:
    """Half of a 32-bit number, as bits or as bytes."""
    (bits,) = struct.unpack("<H", struct.pack("<f", -2.5)[2:])
    for tensor in (
        TensorProto(dtype=14, half_val=[bits]),
        TensorProto(dtype=14, tensor_content=bits.to_bytes(2, "little")),
    ):
        (decoded,) = read(one(tag="x", metadata=of("scalars"), tensor=tensor))
        assert decoded.number == -2.5


def test_the_plugin_of_a_tag_is_named_once() -> None:
    """TensorFlow leaves it out afterwards; the session remembers it for the next chunk of the file."""
    session, losses = HparamsSession(), Losses()
    first = histogram_v2.histogram_pb("w", np.arange(8.0), buckets=2)
    assert read(first, session, losses)[0].item is not None
    later = Summary()
    later.CopyFrom(first)
    later.value[0].ClearField("metadata")
    (decoded,) = read(later, session, losses)
    assert isinstance(decoded.item, records.HistogramRecord) and decoded.item.counts == [4.0, 4.0]
    assert losses.counts == {} and read(later, HparamsSession(), losses) == []
    assert losses.counts == {"unknown summaries": 1}


@pytest.mark.parametrize(
    ("limits", "counts", "edges", "kept"),
    [
        ([1.0, 2.0, 3.0], [0, 4, 5], [1.0, 2.0, 3.0], [4, 5]),  # torch: an empty bucket before the first
        ([1.0, 2.0, 1.7e308], [3, 4, 5], [-0.5, 1.0, 2.0, 9.5], [3, 4, 5]),  # TensorFlow 1: up to the largest number
        ([1.0], [3], [-0.5, 1.0], [3]),
    ],
)
def test_a_histogram_of_limits_has_edges(
    limits: list[float], counts: list[float], edges: list[float], kept: list[float]
) -> None:
    """One more than there are counts."""
    histogram = HistogramProto(min=-0.5, max=9.5, bucket_limit=limits, bucket=counts)
    (decoded,) = read(one(tag="w", histo=histogram))
    assert isinstance(decoded.item, records.HistogramRecord)
    assert (decoded.item.edges, decoded.item.counts, decoded.item.step) == (edges, kept, 7)
    assert read(one(tag="w", histo=HistogramProto(min=1.0))) == []


def test_images_are_files_of_their_kind() -> None:
    """By their first bytes; of several in one summary the first is kept, and the others are counted."""
    losses = Losses()
    for head, suffix in ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF89a", ".gif"), (b"<svg", ".bin")):
        (decoded,) = read(one(tag="x", image=Summary.Image(encoded_image_string=head)), losses=losses)
        assert isinstance(decoded.item, MediaFile) and (decoded.item.suffix, decoded.item.data) == (suffix, head)
    tensor = make_tensor_proto([b"2", b"2", b"\x89PNG1", b"\x89PNG2", b"\x89PNG3"])  # width and height first
    several = one(tag="x", metadata=of("images"), tensor=tensor)
    (decoded,) = read(several, losses=losses)
    assert isinstance(decoded.item, MediaFile) and decoded.item.data == b"\x89PNG1"
    assert losses.counts == {"further images of one summary": 2}


def test_what_has_no_place_is_counted_by_its_kind() -> None:
    """And the values beside it are kept."""
    losses = Losses()
    summary = one(tag="sound", audio=Summary.Audio(encoded_audio_string=b"RIFF"))
    summary.value.append(Summary.Value(tag="pr", metadata=of("pr_curves"), tensor=make_tensor_proto(np.zeros((6, 5)))))
    summary.value.append(Summary.Value(tag="loss", simple_value=0.5))
    assert [(value.tag, value.number) for value in read(summary, losses=losses)] == [("loss", 0.5)]
    assert losses.counts == {"audio": 1, "pr_curves summaries": 1}


def as_value(value: bool | float | str) -> struct_pb2.Value:
    kind = "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else "number_value"
    return struct_pb2.Value(**{kind: value})


@pytest.mark.parametrize(
    ("status", "state"), [(api_pb2.STATUS_SUCCESS, "finished"), (api_pb2.STATUS_FAILURE, "failed")]
)
def test_a_session_has_a_config_a_group_and_an_end(status: int, state: str) -> None:
    """Of the plugin for hyperparameters; its values are not series."""
    session, start = HparamsSession(), SessionStartInfo(group_name="g")
    for name, value in {"lr": 0.1, "layers": 4, "on": True, "name": "x"}.items():
        start.hparams[name].CopyFrom(as_value(value))
    start.hparams["shape"].list_value.extend([2, "b"])
    assert read(hparams(session_start_info=start), session) == []
    assert session.config == {"lr": 0.1, "layers": 4, "on": True, "name": "x", "shape": [2, "b"]}
    assert (session.group, session.state) == ("g", "")
    assert read(hparams(session_end_info=SessionEndInfo(status=status)), session) == []
    assert session.state == state and session.config["layers"] == 4


def test_a_summary_that_is_cut_is_refused_or_shorter() -> None:
    """By an error that the decoder of events counts, and never by another one."""
    summary = scalar_v2.scalar_pb("loss", 0.5)
    summary.MergeFrom(histogram_v2.histogram_pb("w", np.arange(8.0), buckets=2))
    summary.MergeFrom(text_v2.text_pb("t", "hello"))
    summary.MergeFrom(one(tag="w", histo=HistogramProto(min=0, max=1, bucket_limit=[1.0, 2.0], bucket=[1, 2])))
    summary.MergeFrom(hparams(session_start_info=SessionStartInfo(group_name="g")))
    data = summary.SerializeToString()
    whole = len(summaries.values(data, 5, 7, HparamsSession(), Losses()))
    assert whole == 4
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]):
            try:
                assert len(summaries.values(damaged, 5, 7, HparamsSession(), Losses())) <= len(summary.value) + 1
            except (ValueError, struct.error):
                continue
