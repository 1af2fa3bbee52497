"""What a process does before anything else: it registers where tables are kept.

Every program calls ``keep_tables`` once, first: the command line, a child of the pool, the Python API, an executor of
Spark. Importing this package loads neither numpy nor the compiler.
"""

from stream_dedup.startup.kept_files import keep_tables

__all__ = ["keep_tables"]
