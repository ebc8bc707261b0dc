"""Words that are never kept, logged or traced: the operator's patterns, and what stands in their place."""
