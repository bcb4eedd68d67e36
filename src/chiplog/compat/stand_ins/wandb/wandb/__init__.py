"""`chiplog run --as wandb` puts this package in the place of W&B's client."""

try:
    import chiplog.compat.wandb as _stand_in
    from chiplog.compat.wandb.submodules import install as _install
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "chiplog":
        raise
    raise ImportError("`chiplog run --as wandb`: this Python has no chiplog; pip install chiplog") from None

_install(__name__, _stand_in)
