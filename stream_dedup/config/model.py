"""The configuration as plain data: every key with its default, meaning, unit and range, in sections.

The name of a key ends with its unit (``_s``, ``_mib``, ``_bytes``); a duration contains it ("24h"). A key that names
the file of a secret ends with ``_file``. A rule about one value is declared here, a rule between keys in ``load``,
which makes a configuration. What a profile decides is no key here but one of its file (``profile_file``).
``effective`` derives the settings of the core and of the index.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf

from stream_dedup.config import keys
from stream_dedup.config.keys import MAX_FIELD_WEIGHT, ConfigError, Section, key
from stream_dedup.config.profile_file import BUILT_IN, SUFFIX
from stream_dedup.core import paths
from stream_dedup.core.profiles import DEFAULT_PROFILE, PROFILES, Profile
from stream_dedup.core.rules import COPIES_LIMIT

MAX_INDEX_ENTRIES = 1 << 20
"""Entries in memory; each takes 14 bytes for each table."""
MAX_MEMORY_MIB = 1 << 20
"""MiB: 1 TiB."""
MAX_RECORD_BYTES = 256 << 20
"""Bytes: beyond it, no broker takes a record."""
MAX_BODY_BYTES = 64 << 20
"""Bytes: no request with 500 articles is larger."""
MAX_REPLICATION = 9
"""Replicas: more than nine are a mistake, for each takes every write."""
SERVED_INDEX = "index"
"""Name of the index in the folder of the service."""

LOG_SUFFIX = ".fingerprints"
"""The log topic is the group's name followed by this suffix."""
MARK_SUFFIX = ".clusters"
"""The consumer group that says how far ``topics.clusters`` is written is the group's name followed by this suffix."""

_Topic = Annotated[str, AfterValidator(keys.topic_name)]
_TopicOrPattern = Annotated[str, AfterValidator(keys.topic_or_pattern)]
_Topics = Annotated[list[_TopicOrPattern], BeforeValidator(keys.split_list), Field(min_length=1)]
_Path = Annotated[str, AfterValidator(lambda name: paths.parse_path(name).name)]
_OnePath = Annotated[str, AfterValidator(lambda name: paths.parse_path(name, one=True).name)]
_FIELD = "a field name, or a path such as conversations[].value"
_ONE_FIELD = "a field name, or a path such as payload.after.id"
_Seconds = Annotated[float, Field(ge=0.001, le=86_400, allow_inf_nan=False)]


def _built_in(value: object) -> object:
    """Return the built-in profile of a name; any other value unchanged."""
    return PROFILES.get(value, value) if isinstance(value, str) else value


def _threads(meaning: str) -> int | None:
    """Declare a key that is a number of threads."""
    threads: int | None = key(None, meaning, unset="one for each core of its affinity and CPU quota", ge=1, le=256)
    return threads


class KafkaConfig(Section):
    """The connection to the brokers."""

    brokers: Annotated[str, AfterValidator(keys.broker_list)] = key(
        "127.0.0.1:9092", "brokers for the first connection", form="host:port, several separated by commas"
    )
    group: Annotated[str, AfterValidator(keys.group_name)] = key(
        "stream-dedup",
        "consumer group; its fingerprint log is the topic GROUP.fingerprints",
        form="letters, digits, '.', '_' and '-'",
    )
    client: Literal["kafka-python", "confluent"] = key(
        "kafka-python",
        "Kafka client of a worker; confluent takes less processor time a record",
        note="confluent needs the extra stream-dedup[confluent]",
    )
    client_id: str = key(
        "stream-dedup",
        "name of this program in the brokers' logs, metrics and quotas",
        form="text",
        note="the group member of a worker is named GROUP-UUID, its transactions are GROUP-UUID and GROUP-UUID-2",
        min_length=1,
    )
    client_rack: str | None = key(
        None,
        "rack or zone of this machine: records are read from a replica there, if the brokers' replica selector allows",
        form="text, as broker.rack of the brokers",
        min_length=1,
    )
    group_instance_id: str | None = key(
        None,
        "static membership: a worker that starts again within session_timeout_s keeps its partitions",
        form="text, another for each worker",
        note="partitions of a worker that stopped wait for session_timeout_s",
        min_length=1,
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = key(
        "none", "compression of the records that are written"
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = key(
        "PLAINTEXT", "protocol of the connection"
    )
    ssl_cafile: Path | None = key(None, "certificates of the trusted authorities", form="a PEM file")
    ssl_certfile: Path | None = key(None, "certificate of the client", form="a PEM file")
    ssl_keyfile: Path | None = key(None, "private key of the client", form="a PEM file")
    ssl_check_hostname: bool = key(default=True, meaning="require the broker's name in its certificate")
    ssl_password_file: Path | None = key(
        None, "file that contains the password of the private key", form="a readable file"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = key(
        None, "authentication mechanism"
    )
    sasl_username: str | None = key(None, "user name", form="text")
    sasl_password_file: Path | None = key(None, "file that contains the password", form="a readable file")
    sasl_token_file: Path | None = key(
        None,
        "file that contains the token of OAUTHBEARER, read at each connection and when the token ends",
        form="a readable file, which something else renews",
    )
    session_timeout_s: _Seconds = key(
        10, "time without a heartbeat after which the group reassigns a worker's partitions", form="seconds"
    )
    transaction_timeout_s: _Seconds = key(
        30,
        "age at which the broker aborts an open transaction",
        form="seconds",
        note="the broker allows 900 by default",
    )
    broker_wait_s: _Seconds = key(
        60, "time for which the worker waits for an unreachable broker before it stops", form="seconds"
    )


class TopicsConfig(Section):
    """The topics that a worker reads and writes."""

    input: _Topics = key(
        ["articles"],
        "input topics, with the articles",
        form="topic names, separated by commas in the environment",
        note="^ begins a pattern: ^articles[.] is every topic whose name begins so, also one that is made later",
    )
    unique: _Topic = key("unique", "output topic of unique articles", form="a topic name")
    duplicate: _Topic = key("duplicate", "output topic of duplicates", form="a topic name")
    rejected: _Topic = key("rejected", "output topic of unreadable records", form="a topic name")
    clusters: _Topic | None = key(
        None,
        "compacted topic with one record for each cluster of articles, which stream-dedup serve writes",
        form="a topic name",
        unset="none",
    )
    create: bool = key(default=True, meaning="create missing topics at the start")
    partitions: int = key(1, "partitions of the input and output topics that are created", ge=1, le=10_000)
    replication: int | None = key(
        None, "replicas of each topic that is created", unset="the brokers' default", ge=1, le=MAX_REPLICATION
    )

    @property
    def patterns(self) -> list[str]:
        """The patterns among the input topics."""
        return [one for one in self.input if one.startswith(keys.PATTERN)]


class InputConfig(Section):
    """The format of a source record."""

    format: Literal["json", "text", "avro", "protobuf", "json-schema"] = key(
        "json",
        "format of a record's value; the last three begin with the id of a schema in a schema registry",
        note="avro and protobuf need the extra stream-dedup[registry]",
    )
    id_field: _OnePath = key("id", "field with the article's id", form=_ONE_FIELD)
    text_field: _Path = key("text", "field with the article's text", form=_FIELD)
    fields: Annotated[dict[str, int], BeforeValidator(keys.split_weights), AfterValidator(keys.field_weights)] = key(
        {},
        "fields that make up the text, with their weights; empty: text_field alone",
        form='a table such as { title = 3, text = 1 }, "title=3,text=1" in the environment',
        note=f"weights 1 to {MAX_FIELD_WEIGHT}; names may be paths, in quotes",
    )
    scope_field: _OnePath | None = key(
        None,
        "field with the site, tenant or thread: articles match only articles of the same scope",
        form=_ONE_FIELD,
    )
    key_field: _OnePath | None = key(
        None,
        "field with the id in the key of a record, for keys that are JSON objects or begin with the id of a schema",
        form=_ONE_FIELD,
        unset="the whole key is the id",
    )
    deletes: Literal["reject", "withdraw"] = key(
        "reject",
        "what a deleted record does: a record without a value, or one whose delete_field says so",
        note="withdraw: earlier articles with its id match nobody any more, and it has no output",
    )
    delete_field: _OnePath | None = key(
        None, "field with the operation of a record, such as payload.op", form=_ONE_FIELD
    )
    delete_value: str = key(
        "d", "what delete_field is in a record that deletes its article", form="text, a number, true or false"
    )
    delete_id_field: _OnePath | None = key(
        None, "field with the id of a deleted article, such as payload.before.id", form=_ONE_FIELD, unset="id_field"
    )
    markup: Literal["plain", "html"] = key("plain", "markup of the texts")
    html_fields: Annotated[list[str], BeforeValidator(keys.split_list)] = key(
        [],
        "fields that are HTML where the others are plain",
        form="field names, separated by commas in the environment",
    )
    max_bytes: int | None = key(
        None,
        "size of the largest value; a larger one is rejected",
        form="bytes",
        unset="1000000 (filter and calibrate: 67108864)",
        ge=1,
        le=MAX_RECORD_BYTES,
    )


class RegistryConfig(Section):
    """The schema registry of the source records, for ``input.format`` avro and protobuf."""

    url: Annotated[str, AfterValidator(keys.http_url)] | None = key(
        None,
        "address of the registry's Confluent-compatible API",
        form="http:// or https:// with host, port and path",
        unset="none",
    )
    username: str | None = key(None, "user name (basic authentication)", form="text", min_length=1)
    password_file: Path | None = key(None, "file that contains the password", form="a readable file")
    token_file: Path | None = key(
        None,
        "file that contains the token (bearer authentication), read at each request",
        form="a readable file, which something else renews",
    )
    ssl_cafile: Path | None = key(
        None, "certificates of the trusted authorities", form="a PEM file", unset="the system's"
    )


class MatchConfig(Section):
    """When an article is a duplicate."""

    profile: Annotated[InstanceOf[Profile], BeforeValidator(_built_in)] = key(
        PROFILES[DEFAULT_PROFILE],
        "how texts are fingerprinted and searched for",
        form=f"{BUILT_IN}, or a profile file: a path that ends in {SUFFIX}",
    )
    copies: int = key(
        1,
        "near earlier articles from which on an article is a duplicate; with fewer it is unique",
        ge=1,
        le=COPIES_LIMIT,
    )
    window: Annotated[str, AfterValidator(keys.duration)] | None = key(
        None,
        "time for which an article is remembered",
        form="a number with s, m, h or d, such as 90s, 15m, 24h, 7d",
        unset="for ever",
    )
    featureless: Literal["unique", "rejected"] = key("unique", "verdict of a text without words (only punctuation)")
    recrawl: Literal["duplicate", "update"] = key(
        "duplicate",
        "result for an article that is near an earlier one with the same id; an update is sent as unique",
    )
    observe: bool = key(default=False, meaning="send every record to the unique topic, with its verdict in its headers")

    @property
    def window_ms(self) -> int | None:
        """The window in milliseconds, or None for ever."""
        return None if self.window is None else keys.parse_duration_ms(self.window)


class IndexConfig(Section):
    """The index on disk: a cache of the log."""

    path: Path = key(Path("index"), "folder of the index; each worker has its own", form="a folder on a local disk")
    memory_mib: int = key(
        4096,
        "memory for posting lists, rows, and RocksDB's cache and buffers; what does not fit is read from disk",
        form="MiB",
        note="0: as little as there can be",
        ge=0,
        le=MAX_MEMORY_MIB,
    )
    fold_entries: int = key(
        131_072, "articles held in memory before they become a run of each table", ge=1, le=MAX_INDEX_ENTRIES
    )


class WorkerConfig(Section):
    """The resources and time limits of a worker."""

    threads: int | None = _threads("fingerprinting threads")
    batch_records: int = key(500, "maximum records in one batch", ge=1, le=10_000)
    max_inflight_batches: int = key(
        32, "maximum batches polled and not committed, for each eight partitions of the worker", ge=1, le=1000
    )
    shutdown_s: _Seconds = key(20, "time limit of a shutdown", form="seconds")
    clock_allowance_s: float = key(
        60,
        "time by which a broker's clock may be set back before a trim could change a verdict",
        form="seconds",
        ge=0,
        le=86_400,
        allow_inf_nan=False,
    )
    watchdog_s: _Seconds = key(
        60, "time limit of a call to the broker, and of no progress; a longer call stops the worker", form="seconds"
    )


class ClustersConfig(Section):
    """The clusters of articles that ``stream-dedup serve`` keeps."""

    keep: Annotated[str, AfterValidator(keys.duration)] | None = key(
        None,
        "time for which an article stays in its cluster, counted from its output",
        form="a duration such as 90d",
        note="at least 7d, and at least match.window",
        unset="twice match.window, at least 8d; for ever without a window",
    )

    @property
    def keep_ms(self) -> int | None:
        """The time in milliseconds; None if it is not set."""
        return None if self.keep is None else keys.parse_duration_ms(self.keep)


class MetricsConfig(Section):
    """The HTTP server of the metrics."""

    address: Annotated[str, AfterValidator(keys.metrics_address)] = key(
        "127.0.0.1:9464",
        "address that serves /metrics, /healthz and /readyz",
        form='host:port (port 0: any free port) or "off"',
    )


class ServeConfig(Section):
    """The HTTP service over an index of its own."""

    address: Annotated[str, AfterValidator(keys.listening_address)] = key(
        "127.0.0.1:8787",
        "address of the HTTP service; any but a loopback address needs token_file",
        form="host:port (port 0: any free port)",
    )
    data_dir: Path = key(
        Path("serve"), "folder of the index and the clusters of the service", form="a folder on a local disk"
    )
    threads: int | None = _threads("fingerprinting threads of the service")
    token_file: Path | None = key(
        None,
        "file that contains the token; every request but /healthz and /readyz must have it",
        form="a file that not everybody may read",
    )
    tls_cert: Path | None = key(None, "certificate chain of the service; requests are then HTTPS", form="a PEM file")
    tls_key: Path | None = key(None, "private key of that certificate", form="a PEM file")
    max_body_bytes: int = key(8 << 20, "size of the largest request", form="bytes", ge=1024, le=MAX_BODY_BYTES)
    queue_articles: int = key(
        2000, "articles that may be under way; a request beyond it is answered with 503", ge=500, le=100_000
    )
    client_s: Annotated[float, Field(ge=0.1, le=600, allow_inf_nan=False)] = key(
        10, "time in which a client must send a request's body, read its answer, or begin the next one", form="seconds"
    )


class Config(Section):
    """The whole configuration."""

    kafka: KafkaConfig = KafkaConfig()
    topics: TopicsConfig = TopicsConfig()
    input: InputConfig = InputConfig()
    registry: RegistryConfig = RegistryConfig()
    match: MatchConfig = MatchConfig()
    index: IndexConfig = IndexConfig()
    worker: WorkerConfig = WorkerConfig()
    clusters: ClustersConfig = ClustersConfig()
    metrics: MetricsConfig = MetricsConfig()
    serve: ServeConfig = ServeConfig()
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(keys.lower)] = key(
        "info", "lowest severity that is written to standard error"
    )

    @property
    def log_topic(self) -> str:
        """The topic of the fingerprint log."""
        return f"{self.kafka.group}{LOG_SUFFIX}"

    @property
    def mark_group(self) -> str:
        """The consumer group, without members, whose offset says how far ``topics.clusters`` is written."""
        return f"{self.kafka.group}{MARK_SUFFIX}"


def read_secret(path: Path | None) -> str | None:
    """Return the password or token that a file has now; None without a file."""
    if path is None:
        return None
    try:
        return path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"secret file {path}: cannot be read as UTF-8 text; name a readable UTF-8 file"
        raise ConfigError([msg]) from error
