"""Front matter that is made of the format's own words, in any order."""

from hypothesis import strategies as st

KEYS = st.sampled_from(
    [
        "name",
        "model",
        "id",
        "connection",
        "kind",
        "key",
        "options",
        "temperature",
        "inputs",
        "tools",
        "function",
        "mcp",
        "openapi",
        "prompty",
        "path",
        "parameters",
        "bindings",
        "template",
        "format",
        "strict",
        "union",
        "oneOf",
        "anyOf",
        "items",
        "properties",
        "default",
        "enumValues",
        "required",
        "metadata",
        "apiKey",
        "specification",
    ]
)
TEXT = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | KEYS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | TEXT, inner, max_size=5),
    max_leaves=20,
)
FRONT_MATTER = st.dictionaries(KEYS, VALUES, max_size=6)
