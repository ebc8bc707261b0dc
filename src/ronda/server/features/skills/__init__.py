"""Skills that clients keep: see `feature`."""
