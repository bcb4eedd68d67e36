"""Logged values, converted from anything that users pass to what a record may hold."""
