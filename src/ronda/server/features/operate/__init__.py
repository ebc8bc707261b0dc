"""What an operator sees of all owners: figures, states, names of tools and codes of errors; no words of theirs."""
