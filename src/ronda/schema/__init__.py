"""JSON Schema: made from a Python function, and checked against values. No tool, no provider, no network."""
