"""Sign-in with a company's own accounts, by OpenID Connect."""
