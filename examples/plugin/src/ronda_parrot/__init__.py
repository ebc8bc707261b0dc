"""An example of a package that adds to Ronda: see docs/plugins.md."""
