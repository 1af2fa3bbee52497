"""What entries are made of, in plain Python: slow, and independent of the native core, which is held against it."""
