"""The documented APIs of other systems: each turns calls into records and rows back into its own return values."""
