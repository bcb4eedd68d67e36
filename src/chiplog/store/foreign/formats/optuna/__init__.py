"""Optuna: a study in a SQLite database, or in a journal."""
