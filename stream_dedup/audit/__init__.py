"""The audit: recomputes the verdicts from the log and compares the outputs with them."""
