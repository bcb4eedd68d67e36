"""The second version of performance tracing: timelines of nested, tagged spans."""
