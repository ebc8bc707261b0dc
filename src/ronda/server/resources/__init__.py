"""What a run gets: a model or an agent to answer, tools and who runs each, files and skills."""
