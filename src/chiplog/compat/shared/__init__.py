"""What several stand-ins have in common."""
