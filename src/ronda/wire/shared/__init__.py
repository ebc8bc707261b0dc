"""What all doors share: a request in no dialect's words, what a watcher is shown of a run, and how a run's end is told."""
