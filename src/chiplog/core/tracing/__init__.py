"""Spans: recorded live, on threads, tasks and devices."""
