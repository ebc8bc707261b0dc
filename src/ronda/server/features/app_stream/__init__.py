"""The app stream, as a feature and an island: what screenshot-to-code's front end asks of a server, at /generate-code and
elsewhere; and runs of POST /v1/runs that build a page. `tools/page` and `wire/app_stream` are of the same island.

feature     what the server knows of it; the rest is imported with the first request
routes      the rows of the table of addresses
socket      one connection: parameters in, variants side by side, messages out
variants    what is asked for → a group of runs, which are driven as any others
models      which model each variant gets
http_routes     /api and /local-assets
design_systems   what users keep of their own style
command     `ronda page`
"""
