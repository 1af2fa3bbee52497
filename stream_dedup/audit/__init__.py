"""The reference: verdicts recomputed from the log by a plain loop, and compared with the outputs."""
