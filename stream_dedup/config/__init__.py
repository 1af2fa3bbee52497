"""The configuration: model, checks, sources."""
