"""Ways out of a sandbox, tried inside one: see `run`.

An attack that raises was stopped, as was one that returns nothing. What it returns else is what it got hold of.
Imports nothing of ours: it runs where nothing of ours is.
"""

from . import devices, files, kernel, memory, network, privileges, processes
from .registry import ATTACKS

__all__ = ["ATTACKS", "devices", "files", "kernel", "memory", "network", "privileges", "processes"]
