"""Models that run on this machine: `local:NAME` or `local:PATH.gguf`."""
