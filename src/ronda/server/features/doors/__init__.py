"""The addresses that every server has: each module makes one door of `server/doors` with what it uses, and lists its addresses.

Their order in the table of features is the order of addresses, in which the compatibility page lists them.
"""
