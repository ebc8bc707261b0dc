"""Our own API as JSON: runs, events, sessions, and the members that other doors' requests may have besides their dialect's."""
