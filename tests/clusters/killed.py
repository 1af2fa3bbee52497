"""Run as a process that is killed: applies shuffled outputs from where its store stands, one batch at a time."""

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from stream_dedup.clusters.model import JudgedOutput
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import CommittedOffset, Partition
from tests.clusters.outputs import LOG_ID, LoggedArticle, outputs_of, random_log

SEED = 5
OUTPUTS = Partition("unique", 0)
OUTPUTS_ID = b"id of the topic."
MOST = 400
"""Outputs of the largest batch."""


def the_log(count: int) -> list[LoggedArticle]:
    """The same log in every process."""
    return random_log(random.Random(SEED), count)


def the_reads(count: int) -> list[LoggedArticle]:
    """The articles of the log as one partition of outputs has them: shuffled, one in twenty of them twice."""
    rng = random.Random(SEED)
    log = the_log(count)
    read = [*log, *rng.sample(log, count // 20)]
    rng.shuffle(read)
    return read


def batches(reads: Sequence[LoggedArticle], begin: int) -> Iterator[tuple[Sequence[JudgedOutput], int]]:
    """Batches of any size from an offset on, each with the offset behind it."""
    rng = random.Random(begin)
    while begin < len(reads):
        end = min(len(reads), begin + rng.randint(1, MOST))
        yield outputs_of(reads[begin:end], begin), end
        begin = end


def apply_from_position(store: ClusterStore, reads: Sequence[LoggedArticle]) -> Iterator[int]:
    """Apply what is behind the position of the store; yield each position that is stored."""
    known = store.positions().get(OUTPUTS)
    for batch, end in batches(reads, 0 if known is None else int(known.offset)):
        store.apply(batch, {OUTPUTS: CommittedOffset(SourceOffset(end), OUTPUTS_ID)})
        yield end


def main(path: str, count: str) -> int:
    """Called in a forked process; returns its exit code."""
    reads = the_reads(int(count))
    with closing(ClusterStore.open(Path(path), LOG_ID, publishes=True)) as store:
        sys.stdout.write("open\n")
        sys.stdout.flush()
        for end in apply_from_position(store, reads):
            sys.stdout.write(f"{end}\n")
            sys.stdout.flush()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    return 0
