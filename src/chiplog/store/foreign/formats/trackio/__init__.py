"""trackio: its databases, and what it keeps next to them."""
