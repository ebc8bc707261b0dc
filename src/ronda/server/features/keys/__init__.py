"""API keys over HTTP, what was done with them, and the end of what is under way when one is revoked."""
