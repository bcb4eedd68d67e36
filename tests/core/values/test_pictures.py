"""Pictures of any origin as files."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image as Pillow

import chiplog
from chiplog.core.values.pictures import encode, is_picture, png

matplotlib.use("Agg")


def pixels(data: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Pillow.open(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("value", "shade"),
    [
        (np.full((4, 4, 3), 200.0), 200),
        (np.full((4, 4, 3), 0.2), 51),
        (np.full((4, 4, 3), 1.01), 255),  # an overshoot, after resizing
        (np.full((4, 4), -0.5), 0),
        (np.full((4, 4), True), 255),
        (np.full((4, 4), 51 << 8, np.uint16), 51),
        (np.full((4, 4), 300), 255),
        (np.full((4, 4), np.nan), 0),
        ([[51, 51], [51, 51]], 51),
        (torch.full((2, 2), 0.2, dtype=torch.bfloat16, requires_grad=True), 51),
    ],
)
def test_pixels_keep_their_shade(value: object, shade: int) -> None:
    """Floats range from 0 to 1 or from 0 to 255, integers to 255, or to the end of 16 bits."""
    assert (pixels(png(value)) == shade).all()


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (1, 5, 7), (5, 7, 3), (3, 5, 7), (5, 7, 4), (4, 5, 7)])
def test_channels_are_last_or_first(shape: tuple[int, ...]) -> None:
    """The picture has the same height and width in either order."""
    assert pixels(png(np.zeros(shape))).shape[:2] == (5, 7)


def test_where_both_orders_are_possible_torch_has_the_channels_first() -> None:
    """And numpy has them last."""
    assert pixels(png(torch.zeros(3, 4, 4))).shape == (4, 4, 3)
    assert pixels(png(np.zeros((3, 4, 4)))).shape == (3, 4, 4)


def test_a_batch_is_a_grid() -> None:
    """Five images are two rows of three."""
    grid = pixels(png(torch.ones(5, 3, 8, 6)))
    assert grid.shape == (8 * 2 + 2, 6 * 3 + 4, 3)
    assert (grid[:8, :6] == 255).all() and (grid[8:10] == 0).all() and (grid[10:, 16:] == 0).all()


def test_a_list_of_images_is_several_pictures() -> None:
    """Of any kinds and sizes."""
    several = encode([np.zeros((2, 2)), Pillow.new("RGB", (3, 3)), torch.zeros(3, 4, 4)])
    assert [pixels(one.data).shape[0] for one in several] == [2, 3, 4]


def test_pillow_images_are_png() -> None:
    """Also those in modes that PNG does not have."""
    for mode in ("RGB", "L", "P", "CMYK", "F"):
        (picture,) = encode(Pillow.new(mode, (3, 2)))
        assert is_picture(Pillow.new(mode, (3, 2))) and pixels(picture.data).shape[:2] == (2, 3)


def test_figures_are_drawn() -> None:
    """A figure, its axes, or `pyplot` for the current one."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(1, 1), dpi=50)
    for value in (figure, axes, plt):
        (picture,) = encode(value)
        assert is_picture(value) and pixels(picture.data).shape[:2] == (50, 50)
    plt.close(figure)


def test_a_figure_of_plotly_is_a_page() -> None:
    """A picture of it would need a browser."""

    class Figure:
        """As much of Plotly's figure as is used."""

        def to_html(self, include_plotlyjs: str) -> str:
            return f"<html>{include_plotlyjs}</html>"

        def to_plotly_json(self) -> dict[str, object]:
            return {}

    assert is_picture(Figure()) and encode(Figure()) == [(b"<html>cdn</html>", "text/html")]


@pytest.mark.parametrize("value", [np.zeros((2, 2, 2, 2, 2)), np.zeros((0, 3)), np.array(["a"]), object(), None, 3])
def test_anything_else_is_refused(value: object) -> None:
    """With a reason."""
    assert not is_picture(value)
    with pytest.raises(ValueError, match="an image has"):
        encode(value)


@pytest.mark.parametrize("value", [{"a": 1}, [["a"]], ["ab", 1.0]])
def test_what_is_not_a_picture_is_named(value: object) -> None:
    """A mapping and texts are refused in words, not by the depth of a recursion."""
    assert "recursion" not in chiplog.Image(value).problem and chiplog.Image(value).problem
