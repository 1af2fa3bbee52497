"""The rights (ACLs) that each command needs on Kafka, declared once.

``docs/acls.md`` is generated from this (``python -m tests.make_readme``), and ``test_acls`` runs every command with
these rights and no others. A name in capitals stands for a name of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.admin import ACLResourcePatternType as PatternType

from stream_dedup.config.model import Config
from tests.markdown import table

INPUT, OUTPUT, LOG, GROUP, WORKERS = "input topics", "output topics", "GROUP.fingerprints", "GROUP", "GROUP-*"
"""Resources; the last is a prefix."""
CLUSTERS, MARK = "topic of clusters", "GROUP.clusters"
"""Resources of ``topics.clusters``: the topic, and the consumer group that says how far it is written."""
CLUSTERS_SET = "`topics.clusters` is set"


@dataclass(frozen=True, slots=True)
class Right:
    """An operation that is allowed on a resource."""

    operation: ACLOperation
    resource: str
    why: str
    condition: str = ""
    """When it is needed; empty for always."""

    @property
    def kind(self) -> ResourceType:
        """Type of the resource."""
        kinds = dict.fromkeys((GROUP, MARK), ResourceType.GROUP)
        kinds |= {WORKERS: ResourceType.TRANSACTIONAL_ID}
        return kinds.get(self.resource, ResourceType.TOPIC)

    def acls(self, principal: str, config: Config) -> list[ACL]:
        """Return the right as ACLs of a principal."""
        topics = config.topics
        names = {
            INPUT: list(topics.input),
            OUTPUT: [topics.unique, topics.duplicate, topics.rejected],
            LOG: [config.log_topic],
            GROUP: [config.kafka.group],
            WORKERS: [f"{config.kafka.group}-"],
            CLUSTERS: [] if topics.clusters is None else [topics.clusters],
            MARK: [config.mark_group],
        }[self.resource]
        pattern = PatternType.PREFIXED if self.resource == WORKERS else PatternType.LITERAL
        return [
            ACL(principal, "*", self.operation, ACLPermissionType.ALLOW, ResourcePattern(self.kind, name, pattern))
            for name in names
        ]


READ, WRITE, DESCRIBE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE
CREATE, DELETE, DESCRIBE_CONFIGS = ACLOperation.CREATE, ACLOperation.DELETE, ACLOperation.DESCRIBE_CONFIGS

_EXISTS = Right(DESCRIBE, INPUT, "see whether the topics exist")
_READ_LOG = Right(READ, LOG, "read the log")
_OFFSETS = Right(DESCRIBE, GROUP, "read the committed offsets")
_CHECK = (
    *(Right(DESCRIBE_CONFIGS, of, "check the settings of the topics") for of in (INPUT, OUTPUT, LOG)),
    *(
        Right(operation, CLUSTERS, "check the settings of the topics", CLUSTERS_SET)
        for operation in (DESCRIBE, DESCRIBE_CONFIGS)
    ),
)
_CREATE = (
    *(Right(CREATE, of, "create missing topics", "the topics do not exist yet") for of in (INPUT, OUTPUT, LOG)),
    Right(CREATE, CLUSTERS, "create missing topics", f"{CLUSTERS_SET}, and it does not exist yet"),
)
FOLLOW_CLUSTERS = (
    Right(READ, OUTPUT, "follow the verdicts for the clusters"),
    Right(DESCRIBE, LOG, "see whether it is the log of the clusters"),
    Right(READ, CLUSTERS, "find what an earlier store has published", CLUSTERS_SET),
    Right(WRITE, CLUSTERS, "publish the clusters", CLUSTERS_SET),
    Right(READ, MARK, "commit how far the clusters are published", CLUSTERS_SET),
    Right(WRITE, WORKERS, "transactions that publish the clusters", CLUSTERS_SET),
)
"""What ``clusters.follow`` needs."""

RIGHTS: dict[str, tuple[Right, ...]] = {
    "run": (
        Right(READ, INPUT, "read the articles, commit their offsets"),
        Right(WRITE, OUTPUT, "write the verdicts"),
        Right(READ, LOG, "read the log"),
        Right(WRITE, LOG, "append to the log"),
        Right(DELETE, LOG, "cut the log behind a trim (DeleteRecords)", "`match.window` is set"),
        Right(READ, GROUP, "join the group, commit offsets"),
        Right(WRITE, WORKERS, "transactions, and ending those of dead workers"),
        *_CHECK,
        *_CREATE,
    ),
    "status": (
        *(replace(_EXISTS, resource=of) for of in (INPUT, OUTPUT)),
        _READ_LOG,
        Right(DESCRIBE, GROUP, "read the members and the committed offsets"),
        Right(DESCRIBE, WORKERS, "see open transactions of workers that ended"),
        *_CHECK,
    ),
    "serve": (
        _READ_LOG,
        _OFFSETS,
        Right(READ, INPUT, "show the texts of articles"),
        *FOLLOW_CLUSTERS,
        Right(DESCRIBE, WORKERS, "see open transactions of workers that ended"),
        *_CHECK,
    ),
    "audit": (
        Right(READ, INPUT, "find articles that were never logged"),
        Right(READ, OUTPUT, "read the verdicts"),
        _READ_LOG,
        _OFFSETS,
    ),
    "produce": (Right(WRITE, INPUT, "write the articles"),),
    "seed": (
        Right(READ, INPUT, "read the topic", "`--topic`"),
        _READ_LOG,
        Right(WRITE, LOG, "append to the log"),
        _OFFSETS,
        _EXISTS,
        replace(_EXISTS, resource=OUTPUT),
        *_CHECK,
        *_CREATE,
    ),
    "withdraw": (_READ_LOG, Right(WRITE, LOG, "append the withdrawal")),
    "reject": (
        Right(READ, INPUT, "read the record"),
        _READ_LOG,
        Right(WRITE, LOG, "append the rejection"),
        _OFFSETS,
    ),
    "rules show": (_READ_LOG,),
    "rules apply": (
        _READ_LOG,
        Right(WRITE, LOG, "append the rules"),
        _OFFSETS,
        _EXISTS,
        replace(_EXISTS, resource=OUTPUT),
        *_CHECK,
        *_CREATE,
    ),
    "offsets show": (_EXISTS, _READ_LOG, _OFFSETS),
    "offsets set": (
        Right(READ, INPUT, "commit offsets of the topics"),
        _READ_LOG,
        Right(READ, GROUP, "commit the offsets"),
    ),
    "topics check": (*(replace(_EXISTS, resource=of) for of in (INPUT, OUTPUT, LOG)), *_CHECK),
    "topics create": (
        *(replace(_EXISTS, resource=of) for of in (INPUT, OUTPUT, LOG)),
        _OFFSETS,
        *_CHECK,
        *_CREATE,
    ),
    "index rebuild": (
        _READ_LOG,
        _OFFSETS,
        *(replace(_EXISTS, resource=of) for of in (INPUT, OUTPUT)),
        *_CHECK,
    ),
}


_SHARED = {"Checking topics": _CHECK, "Creating topics": _CREATE}
"""What several commands need, by the heading that the page has for it."""


def acls_part() -> str:
    """Return the table of each command, and those that commands share, in Markdown."""
    sections = {f"`{command}`": _of_command(rights) for command, rights in RIGHTS.items()}
    sections |= {heading: _table(rights) for heading, rights in _SHARED.items()}
    return "\n\n".join(f"## {heading}\n\n{text}" for heading, text in sections.items())


def _of_command(rights: tuple[Right, ...]) -> str:
    shared = [heading for heading, those in _SHARED.items() if set(those) <= set(rights)]
    of_others = {right for heading in shared for right in _SHARED[heading]}
    text = _table(right for right in rights if right not in of_others)
    links = (f"[{heading.lower()}](#{heading.lower().replace(' ', '-')})" for heading in shared)
    return f"{text}\n\nAlso those of {' and '.join(links)}." if shared else text


def _table(rights: Iterable[Right]) -> str:
    """Return a row for each operation and purpose, with all resources."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for right in rights:
        operation = right.operation.name.title().replace("_", "")
        kind = right.kind.name.lower().replace("_", " ") + ", by prefix" * (right.resource == WORKERS)
        name = right.resource.replace("-*", "-") if right.resource == WORKERS else right.resource
        rows.setdefault((operation, kind, right.why, right.condition), []).append(name)
    head = ("operation", "resource", "name", "for", "needed if")
    return table(
        head, ((operation, kind, ", ".join(names), *purpose) for (operation, kind, *purpose), names in rows.items())
    )
