"""One line in the log for each request, and the id by which a client and the log name it."""
