"""What people look at: each view reads a stored run, and never touches a live one."""
