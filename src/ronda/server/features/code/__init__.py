"""Python and a shell, each call in its session's sandbox."""
