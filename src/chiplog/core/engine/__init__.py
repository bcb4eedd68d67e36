"""What a run is made of: its background thread, rules, attachments, steps and shutdown."""
