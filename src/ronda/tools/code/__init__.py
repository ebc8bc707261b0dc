"""Tools that run code in a sandbox: Python that keeps its variables, and shell commands."""
