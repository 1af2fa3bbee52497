"""Takes the machine code that was kept beside an installed program, where nothing can be written any more.

numba takes kept code only from a folder that it can write. The image is built with the code in it and runs with a file
system that is read-only; it names this class in ``NUMBA_CACHE_LOCATOR_CLASSES``. Code that does not fit (another
processor, other source) is compiled again, which ``kernel`` notes.
"""

from __future__ import annotations

from numba.core.caching import InTreeCacheLocator


class InstalledCode(InTreeCacheLocator):
    """The cache beside the source, whether it can be written or not."""

    def ensure_cache_path(self) -> None:
        """Accept the folder as it is: what is missing is compiled, and ``kernel`` notes what cannot be kept."""
