"""Cassettes: a run as a file that can be played again, without a model, a tool or a network.

    cassette        the file and its lines
    recording       a run under way → a cassette
    export          a run that a journal has → a cassette
    replay          a cassette → the same run again, or the first difference; or a branch of it, live from a round on
    differences     what was recorded, and what happens now → the first difference
    replay_agent    the same for users' tests, with the agent as it is today

Users find what their tests need in `ronda.testing`.
"""
