"""Values and decisions. Nothing here reads a file, the environment, a socket, the clock, or starts a process."""
