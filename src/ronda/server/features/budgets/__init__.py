"""How much runs, sessions, keys and owners may spend: reserved before each model call, settled after it."""
