"""Runs without a client: in the background, after a crash, while they wait for people, and in other processes."""
