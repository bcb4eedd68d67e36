"""W&B's service process, and how to stop it. Uses private parts of the SDK.

That process remembers the id of a run that failed to start, and refuses it from then on; and if it cannot send, it
blocks the caller that asks it to end. So a process that makes no progress is killed, and the next try has a new one.
"""

from __future__ import annotations

import threading
from typing import Any

import wandb
from wandb.sdk import wandb_setup
from wandb.sdk.lib import module, wbauth
from wandb.sdk.lib.service import service_token

from chiplog.core.engine import shutdown


def start() -> wandb.Settings:
    """Start the SDK's process; its settings. It ends with the interpreter, after our runs."""
    setup = wandb.setup(wandb.Settings(silent=True))
    shutdown.go_first()
    return setup.settings


def has_key() -> bool:
    """Whether the SDK can log in without asking a person; raises `AuthenticationError` for a key that cannot be one.

    `wandb.login` would also be false while a run is active, or if W&B is offline for the rest of the process.
    """
    host = wandb.setup().settings.base_url
    return wbauth.authenticate_session(host=host, source="chiplog", prompt=False) is not None


def is_free() -> bool:
    """Whether no run of W&B is active in this process, so that ours may be `wandb.run`."""
    return wandb.run is None and wandb.setup().most_recent_active_run is None


def discard(run: Any = None) -> bool:
    """Kill the SDK's process with what it has not sent; false if it also serves runs that are not ours."""
    with wandb_setup._singleton_lock:
        setup = wandb_setup._singleton
        if setup is None:
            return True
        connection = setup._connection
        if any(one is not run for one in setup._active_runs) or (connection and not connection.owns_service):
            return False
        wandb_setup._singleton = None
    wbauth.unauthenticate_session(update_settings=False)  # the next one may have another key
    if connection is not None:
        connection._torn_down = True
        if connection._cleanup is not None:
            connection._cleanup()
        service_token.clear_service_in_env()
        connection._finalizer._queue.put(None)  # otherwise its thread reports that the process is gone
        connection._finalizer._thread.join(1.0)
        connection._proc._process.kill()
        connection._proc.join()
    if run is not None:
        if run._run_status_checker is not None:
            run._run_status_checker.stop()  # otherwise its thread does
        setup.remove_active_run(run)
        if wandb.run is run:
            module.unset_globals()
    threading.Thread(target=setup.asyncer.join, name="chiplog-wandb-end", daemon=True).start()
    return True
