"""Calls of tools that are sent to addresses: see `feature`."""
