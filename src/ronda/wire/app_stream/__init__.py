"""The app stream: what screenshot-to-code's front end and its backend say to each other over one WebSocket.

parameters  the client's one message → what it asks for
prompts     that → the conversation that each variant begins with
stacks      what a model is told about the kind of page
messages    a variant's events → what the page is told
summaries   a call's arguments → what the page shows of them when the tool begins
html        what a model said → the page in it, if there is one
"""
