"""Aim: its repositories, read with its own package in another process."""
