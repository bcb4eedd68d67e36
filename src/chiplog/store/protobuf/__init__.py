"""Protocol buffers, read and written without their own packages."""
