"""The points of a run: columns, series, and the view that shows the newest attempt."""
