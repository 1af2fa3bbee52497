"""Tests, and what is a command among them: ``python -m tests.fuzz``, ``tests.simulation``, ``tests.make_readme``."""
