"""Vendor formats, both ways, as pure functions of bytes: no socket, no clock, no loop.

A folder for each dialect, and rooms for what is of no dialect: `codec` (bytes ⇄ JSON), `upstream` (what all clients share),
`shared` (what all doors share), `web`, `resources` (stored objects) and `own` (our API's JSON).
"""
