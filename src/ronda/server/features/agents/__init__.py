"""Agents of files, and agents as tools: see `feature`."""
