"""Vectors of texts, over HTTP."""
