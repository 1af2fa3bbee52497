"""What a number of articles a day takes: look-ups, memory, disk, cores and workers, from measured costs."""
