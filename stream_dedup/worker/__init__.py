"""One article's way through a worker: polled, decoded, fingerprinted, logged, judged, committed.

app          builds a worker from a configuration, and runs it
opening      opens the log and its index before anything is judged
worker       the threads, from their start to their end
source       step 1: polls the articles
watches      looks up topic ids, and schemas
assignments  the partitions that a membership gave this worker, and their batches in flight
decoding     steps 2 and 3: decodes and fingerprints; holds what waits for a schema
engine       steps 4 to 6: appends to the log, applies what is read of it, judges
log_tail     reads the log
committer    step 7: one transaction for verdicts and source offsets
trimmer      with a window, deletes what no later article can match
health       the watchdog: sees whether there is progress, and ends calls that hang
"""

from enum import StrEnum


class Step(StrEnum):
    """Points between two effects, in order, those of a trim last; tests end or stop the process there."""

    POLLED = "polled"
    DECODING = "decoding"
    FINGERPRINTED = "fingerprinted"
    APPENDED = "appended"
    READ = "read"
    JUDGED = "judged"
    SENT = "sent"
    OFFSETS_SENT = "offsets-sent"
    COMMITTED = "committed"
    RESTATED = "rules-restated"
    TRIM_APPENDED = "trim-appended"
    CUT = "log-cut"
