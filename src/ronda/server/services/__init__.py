"""What a run cannot be kept, found or answered without: its journal, queue and recovery, what it gets, what is asked of it."""
