"""MLflow's tracking store over runs of chiplog: `MLFLOW_TRACKING_URI=chiplog:///runs`."""
