"""How many requests and tokens a minute, and how many requests at a time, each key may have."""
