"""The components of a run: recorder, rows, steps, rules, alerts, attachments and shutdown."""
