"""More models behind one server, each under a name, and which of them answer where another does not."""
