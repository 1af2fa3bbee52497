"""Explains why two texts match, or do not."""
