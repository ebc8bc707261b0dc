"""The machine and the server on it: what they are, how they fare, and which models are in memory."""
