"""Clear errors for the calls of MLflow's store that have no meaning for runs, such as traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import NOT_IMPLEMENTED

OTHER_STORE = "use a store of MLflow for it: MLFLOW_TRACKING_URI=sqlite:///mlflow.db"


def refusal(what: str, fix: str = OTHER_STORE) -> MlflowException:
    """The error for something that chiplog does not keep."""
    return MlflowException(f"chiplog does not keep {what}; {fix}", error_code=NOT_IMPLEMENTED)


def refuse_the_rest(store: type) -> type:
    """Give every method that MLflow's class leaves to its subclasses, and this one does not have, a clear error."""
    for name in dir(store):
        method = getattr(store, name)
        if not name.startswith("_") and name not in vars(store) and _is_left_open(method):
            setattr(store, name, _refusing(name))
    return store


def _is_left_open(method: object) -> bool:
    """Whether a method only raises NotImplementedError, or does nothing."""
    code = getattr(method, "__code__", None)
    abstract = getattr(method, "__isabstractmethod__", False)
    return code is not None and (abstract or "NotImplementedError" in code.co_names)


def _refusing(name: str) -> Callable[..., NoReturn]:
    what = "traces" if "trace" in name else f"what MLflow's {name} is about"

    def refuse(_: object, *__: Any, **___: Any) -> NoReturn:
        raise refusal(f"{what} ({name})")

    refuse.__name__ = name
    return refuse
