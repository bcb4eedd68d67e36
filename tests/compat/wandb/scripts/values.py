"""Values of all kinds: NaN, infinities, booleans, text, lists, arrays and tensors."""

import numpy as np
import torch
import wandb

run = wandb.init(project="values")
run.log({"nan": float("nan"), "inf": float("inf"), "minus": float("-inf"), "true": True, "text": "hello", "none": None})
run.log(
    {
        "float32": np.float32(1.5),
        "int64": np.int64(3),
        "bool": np.bool_(True),
        "array": np.arange(5),
        "one": np.array([7]),
    }
)
run.log({"tensor": torch.tensor(2.5), "graph": torch.tensor(1.0, requires_grad=True), "vector": torch.arange(4.0)})
run.log({"list": [1, 2, 3], "tuple": (1, 2), "lists": [[1, 2], [3, 4]], "large": np.arange(100.0), "big": 2**60})
run.finish()
