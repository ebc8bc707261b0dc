"""Tools with which a model reads the files of its session, and lists them."""
