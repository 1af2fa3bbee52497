"""The audit at the end of a schedule: through its ports, as an operator would run it beside idle workers."""

from __future__ import annotations

from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.errors import StreamDedupError
from stream_dedup.ports import AuditPorts
from tests.memory.log import MemoryLog
from tests.memory.offsets import MemoryOffsets, MemoryTopicReader
from tests.memory.runtime import Connection
from tests.simulation.scheduler import Process, VirtualClock
from tests.simulation.world import GROUP, SimulatedWorld


def audit(world: SimulatedWorld) -> AuditReport:
    """Audit everything that the workers of a schedule have done."""
    cluster, connection = world.cluster, Connection()
    ports = AuditPorts(
        log=MemoryLog(cluster, connection, world.log_topic),
        offsets=MemoryOffsets(cluster, connection, GROUP),
        reader=MemoryTopicReader(cluster, connection),
        clock=VirtualClock(world.scheduler, Process("audit")),
    )
    return run_audit(world.slots[0].config, AuditOptions(), ports, lambda _stage, _done, _total: None)


def audit_faults(world: SimulatedWorld) -> list[str]:
    """Return the faults that the audit finds, as text; an audit that cannot be made is one, too."""
    try:
        report = audit(world)
    except StreamDedupError as error:
        return [f"audit: {error}"]
    return [f"audit: {kind}: {text}" for kind, texts in report.examples.items() for text in texts]
