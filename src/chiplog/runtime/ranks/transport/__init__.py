"""How ranks reach each other: one file per library."""
