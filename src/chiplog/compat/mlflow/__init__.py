"""MLflow: `MLFLOW_TRACKING_URI=chiplog:///runs`.

A tracking store, which MLflow finds by its entry point: what its client logs is kept in runs of chiplog, and what it
asks for is read from them (docs/integrations.md).
"""
