"""Why two texts match, or do not."""
