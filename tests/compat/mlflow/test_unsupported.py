"""Calls that have no meaning for runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.abstract_store import AbstractStore

from chiplog.compat.mlflow.store import ChiplogStore

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.search_traces(locations=["0"]),
        lambda client: client.get_trace("tr-1"),
        lambda client: client.create_dataset("d"),
        lambda client: client.create_registered_model("m"),
    ],
)
def test_the_error_says_what_is_not_kept(call: Callable[[MlflowClient], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """And names another store."""
    with pytest.raises(MlflowException, match=r"chiplog does not keep .*sqlite:///"):
        call(MlflowClient())


def test_no_method_is_left_without_an_answer() -> None:
    """Everything that MLflow's class leaves open is kept, or refused in words."""
    methods = {name: getattr(ChiplogStore, name) for name in dir(AbstractStore) if not name.startswith("_")}
    codes = {name: method.__code__ for name, method in methods.items() if hasattr(method, "__code__")}
    assert len(codes) > 80
    assert [name for name, code in codes.items() if "NotImplementedError" in code.co_names] == []


def test_a_traced_function_works_as_before() -> None:
    """The trace is lost, the training is not."""

    @mlflow.trace
    def double(number: int) -> int:
        return 2 * number

    with mlflow.start_run() as run:
        mlflow.log_metric("doubled", double(4))
    assert mlflow.get_run(run.info.run_id).data.metrics == {"doubled": 8.0}
