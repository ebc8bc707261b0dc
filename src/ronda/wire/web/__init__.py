"""Web search as every dialect speaks of it: what is asked, what is shown of a call, and what an answer cites."""
