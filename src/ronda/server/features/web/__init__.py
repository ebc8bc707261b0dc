"""Search on the web, and reading its pages."""
