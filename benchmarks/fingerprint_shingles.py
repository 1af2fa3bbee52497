"""What MinHash is made of in the benchmarks: the characters of a shingle, and the number of values."""

VALUES, SHINGLE = 128, 5


def shingles(text: str) -> list[str]:
    """Return every five neighbouring characters."""
    return [text[at : at + SHINGLE] for at in range(max(1, len(text) - SHINGLE + 1))]
