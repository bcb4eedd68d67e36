"""A value of `log`, from whatever people pass to what a record may hold."""
