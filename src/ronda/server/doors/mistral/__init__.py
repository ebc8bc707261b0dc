"""The doors for Mistral's clients: agent completions, agents, conversations."""
