"""Webhooks: an owner hears that a run has ended, has failed, or waits for a decision."""
