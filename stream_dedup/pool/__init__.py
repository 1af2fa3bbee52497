"""Fingerprinting processes: a pool of children that make the columns of records.

Rules:

* Each child has one connection and one thread in the parent. A result therefore belongs to the records that were sent,
  and the death of a child is noticed at once and names the child.
* Children do not outlive their parent, however it ends: a thread in each child waits on a pipe that only the parent
  holds open, and ends the process when the pipe closes.
* Children ignore Ctrl-C and SIGTERM, which a terminal or a service manager sends to the whole group: the parent decides
  when their work is done.
* A child imports the core and nothing else: no Kafka, no RocksDB, and not the program's ``__main__``, which the spawn
  of ``multiprocessing`` would run again. BLAS uses one thread in a child: the processes are the parallelism.
* An article that takes longer than the limit is rejected, and no other article because of it: records that took too
  long together are done again, one after the other, each with the whole limit.
* The limit is processor time of the process. A process that is stopped, or that waits for a core, loses no article.
* A child sets a timer that ends it, whatever it does; the parent then starts another in its place. A child that dies
  otherwise is not replaced: its work fails, and so does all later work. The caller stops, and starts again from what
  was committed.
* With 0 processes the timer interrupts the main thread, but neither another thread nor a single call into a library
  that is not written in Python. Without a process no more is possible.

The queue has no limit of its own: callers limit the work that they have under way.
"""

from stream_dedup.pool.pool import FingerprintPool

__all__ = ["FingerprintPool"]
