"""The loop, pure: values, events, and the run that folds them. No await, no clock, no randomness, no vendor."""
