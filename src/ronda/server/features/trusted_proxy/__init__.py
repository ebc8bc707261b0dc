"""Users whom a proxy before the server has signed in."""
