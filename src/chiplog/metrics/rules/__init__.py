"""Rules: look at a row, report what is wrong with it."""
