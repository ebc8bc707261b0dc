"""Bytes of any wire ⇄ values: JSON, also broken, half or in pieces; event streams; forms."""
