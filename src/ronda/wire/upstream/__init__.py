"""What all clients of vendors share: the body of a model call, its stream, and what an upstream refuses."""
