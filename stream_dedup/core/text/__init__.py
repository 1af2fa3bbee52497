"""From a record's bytes to normalised text."""
