"""What all doors share: a request that was read → runs → an answer, plain or streamed."""
