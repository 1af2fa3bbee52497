"""One article's way: polled, fingerprinted, logged, judged, committed."""
