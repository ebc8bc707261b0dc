"""Addresses besides the doors: runs, approvals, sessions, files, skills, containers, models."""
