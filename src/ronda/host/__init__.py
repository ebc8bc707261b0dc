"""What a run under way needs of the process it is in: a log for its followers, and a driver."""
