"""Figures for Prometheus, at /metrics or on a port of their own."""
