"""Long runs on the real local model: `make conformance-local`. At most half an hour on two cores."""
