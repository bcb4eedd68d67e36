"""What people look at: each view reads a stored run and never meets a live one."""
