"""What the worker measures, and the server that shows it."""
