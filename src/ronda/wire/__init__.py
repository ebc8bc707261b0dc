"""Vendor formats, both ways, as pure functions of bytes: no socket, no clock, no loop."""
