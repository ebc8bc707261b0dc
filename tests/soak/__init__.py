"""A server under half its load for a long time: its memory and descriptors stay as they are, and no run is lost."""
