"""Runs scripts one after another in this process, and reports those that fail: `run_scripts.py SCRIPT...`."""

import runpy
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
failed = []
for script in sys.argv[1:]:
    try:
        runpy.run_path(str(Path(__file__).parent / "scripts" / f"{script}.py"), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        failed.append(script)
    wandb = sys.modules.get("wandb")
    if wandb is not None and wandb.run is not None:
        wandb.finish()
sys.exit(f"failed: {failed}" if failed else 0)
