"""What stores keep and return, as values: for modules that read or make them, and ask no database."""
