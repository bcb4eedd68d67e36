"""The arithmetic of training: pure functions and small stages and rules; no I/O, no torch."""
