"""`chiplog run`: record a command, or run it with a stand-in."""
