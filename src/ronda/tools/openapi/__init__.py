"""An OpenAPI document → tools that call the API: one for each operation.

    document     the document and what it refers to
    schemas      its schemas → JSON Schema, references and all
    operations   paths and methods → operations, with what the model sees of each
    request      an operation and arguments → a request, nothing of which the arguments can break out of
    tool         the request sent, the answer as the model reads it

Where a document comes from and whose key it is used with is decided further up.
"""
