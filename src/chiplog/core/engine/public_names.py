"""The names of a run that are meant for users, as `dir(run)` lists them; the others are for the other layers."""

PUBLIC_NAMES = (
    "alert", "artifact", "config", "dir", "end_step", "eval", "event", "finish", "flush", "health", "id", "log",
    "meter", "name", "on_alert", "on_record", "project", "resume_token", "settle", "sink", "span", "spans",
    "start_step", "step", "steps", "stopwatch", "summary", "table", "tags", "trace",
)  # fmt: skip
