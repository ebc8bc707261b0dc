"""What a run cannot be kept, found or answered without: runs under way, and what is asked of them."""
