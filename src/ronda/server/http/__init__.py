"""HTTP at the edge: what is let in, within bounds, whose it is, and what goes out when something is wrong."""
