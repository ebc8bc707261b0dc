"""The app stream's door: what screenshot-to-code's front end asks of a server, at /generate-code and beside it.

route       the rows of the table of addresses; the rest is imported when somebody asks
socket      one connection: parameters in, variants side by side, messages out
variants    what is asked for → a group of runs, which are driven as any others
models      which model each variant gets
beside      /api and /local-assets
design_systems   what users keep of their own style
"""
