"""Fingerprinting processes: a pool of children that make the columns of records.

Rules:

* Each child has one connection and one thread in the parent, its driver. A result therefore belongs to the records that
  were sent, and the death of a child is noticed at once and names the child.
* Children do not outlive their parent, however it ends and whatever they are doing: the kernel kills a child when its
  driver ends (Linux), and a driver lives as long as its children. Where there is no such thing, a thread in the child
  waits on a pipe that only the parent holds open; it cannot interrupt a loop that is not written in Python.
* Children ignore Ctrl-C and SIGTERM, which a terminal or a service manager sends to the whole group: the parent decides
  when their work is done.
* A child imports the core and nothing else: no Kafka, no RocksDB, and not the program's ``__main__``,
  which the spawn of ``multiprocessing`` would run again. BLAS uses one thread in a child: the processes are the
  parallelism.
* An article that takes longer than the limit, or whose process is killed twice, is rejected, and no other article
  because of it: records that ended their process together are done again one by one (``isolation``).
* The limit is processor time of the process. A process that is stopped, or that waits for a core, loses no article.
  A child sets a timer that ends it, whatever it does.
* A child that ended is replaced when there is work for it. Only children that die again and again without work, or
  before they have loaded, end the pool: its work fails, and so does all later work. The caller stops, and starts again
  from what was committed. Loading includes one sentence, so that a library that crashes on every article rejects none.
* A slow task holds up no other: after ``SLOW_S`` another child takes its place, up to twice as many as are wanted. No
  other task of its lane (its source partition) begins meanwhile, so that one partition cannot occupy every child.
* Tasks of several lanes that one child does together are given up where they are slow or end the child: each is done
  again by itself, so that no lane waits for an article of another one.
* With 0 processes the timer interrupts the main thread, but neither another thread nor a single call into a library
  that is not written in Python, and an article that crashes its process crashes the caller. Without a process no more
  is possible. Threads that share the records of a call (``in_process``) are left at work where one takes too long: its
  records are done again one by one in the main thread.

The queue has no limit of its own: callers limit the work that they have under way.
"""

from stream_dedup.pool.cores import process_count
from stream_dedup.pool.pool import FingerprintPool

__all__ = ["FingerprintPool", "process_count"]
