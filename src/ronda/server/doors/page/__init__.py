"""The page: its files, the headers that bind it, and what it must know of its server."""
