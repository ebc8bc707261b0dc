"""What a run under way needs of the process it is in: a log for those who follow it, and somebody who drives it."""
