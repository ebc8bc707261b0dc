"""Servers that are killed, frozen and cut off, under load: what must hold anyway."""
