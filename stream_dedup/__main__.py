"""``python -m stream_dedup`` is ``stream-dedup``.

For ``-m`` Python imports from the current folder first, before a line of ours is run: in a folder that is not trusted,
use ``stream-dedup`` or ``python -P -m stream_dedup``.
"""

from stream_dedup.cli import main

if __name__ == "__main__":
    main()
