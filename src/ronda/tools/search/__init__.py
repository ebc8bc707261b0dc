"""Web search for any model: a query → results, read, ranked and cut to a budget, each with a number to cite it by.

    backend      what a search is asked of: one method
    duckduckgo, json_api, folder, callback      those there are
    settings     the operator's table `[search]` → a backend
    rank         results and a budget → the passages that matter
    embeddings   texts → vectors, for a better ranking
    searcher     a backend and a reader of pages, together: one for a server
    history      the sources that a run was shown, numbered, and how often it searched
    tool         the two tools that a model calls

How a request asks for a search is known to `wire.web.search`, and how an answer cites its sources to `wire.web.citations`.
"""
