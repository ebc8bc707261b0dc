"""Real providers, asked for real by `make live`; its tests ask upstreams of ours."""
