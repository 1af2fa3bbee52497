"""``python -m stream_dedup`` is ``stream-dedup``."""

from stream_dedup.cli import main

if __name__ == "__main__":  # a fingerprinting process imports this module again
    main()
