"""Addresses beside the doors: runs, approvals, sessions, files, skills, containers, models."""
