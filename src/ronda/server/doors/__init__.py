"""The doors: each dialect's endpoint joins its reader and its writer (`wire/`) to what all doors share (`exchange/`)."""
