"""Models that run in this process: `local:NAME` or `local:PATH.gguf`."""
