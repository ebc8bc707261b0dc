"""Runs that begin by the clock: an owner's request, a cron expression and a time zone."""
