"""The `ronda` command."""
