"""From normalised text to signatures, margins and the columns of log entries."""
