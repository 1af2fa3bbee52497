"""The sections of the configuration: every key with its default, meaning, unit and range.

Rules: a key that the profile sets is None by default (``effective`` derives the value in force). A rule about one
value is declared here, a rule about several keys in ``across``. The section of the match is in ``match_section``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from stream_dedup.config import checks
from stream_dedup.config.checks import MAX_FIELD_WEIGHT, ConfigError
from stream_dedup.config.keys import PROFILE_DEFAULT, key
from stream_dedup.core.model import BlockBits, TableCount
from stream_dedup.core.text import paths

MAX_TEXT_SIZE = 1_000_000
"""Characters: no text that is fingerprinted as short is longer."""
MAX_INDEX_ENTRIES = 1 << 20
"""Entries in memory; each takes 14 bytes for each table."""
MAX_MEMORY_MIB = 1 << 20
"""MiB: 1 TiB."""
MAX_RECORD_BYTES = 256 << 20
"""Bytes: beyond it, no broker takes a record."""

MAX_REPLICATION = 9
"""Replicas: more than nine are a mistake, for each takes every write."""

_Topic = Annotated[str, AfterValidator(checks.topic_name)]
_TopicOrPattern = Annotated[str, AfterValidator(checks.topic_or_pattern)]
_Topics = Annotated[list[_TopicOrPattern], BeforeValidator(checks.split_list), Field(min_length=1)]
_Path = Annotated[str, AfterValidator(paths.check_path)]
_OnePath = Annotated[str, AfterValidator(paths.check_one_path)]
_FIELD = "a field name, or a path such as conversations[].value"
_ONE_FIELD = "a field name, or a path such as payload.after.id"
_Seconds = Annotated[float, Field(ge=0.001, le=86_400, allow_inf_nan=False)]


class Section(BaseModel):
    """A section of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class KafkaConfig(Section):
    """The connection to the brokers."""

    brokers: Annotated[str, AfterValidator(checks.broker_list)] = key(
        "127.0.0.1:9092", "brokers for the first connection", form="host:port, several separated by commas"
    )
    group: Annotated[str, AfterValidator(checks.group_name)] = key(
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
    ssl_password: SecretStr | None = key(
        None, "password of the private key", form="text, preferably in ssl_password_file"
    )
    ssl_password_file: Path | None = key(
        None, "file that contains the password of the private key", form="a readable file"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = key(
        None, "authentication mechanism"
    )
    sasl_username: str | None = key(None, "user name", form="text")
    sasl_password: SecretStr | None = key(None, "password", form="text, preferably in sasl_password_file")
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

    def sasl_secret(self) -> str | None:
        """Return the SASL password, from the key or from its file."""
        return _secret(self.sasl_password, self.sasl_password_file)

    def ssl_secret(self) -> str | None:
        """Return the private key's password, from the key or from its file."""
        return _secret(self.ssl_password, self.ssl_password_file)


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
    groups: _Topic | None = key(
        None,
        "compacted topic with one record for each group of articles, which stream-dedup serve writes",
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
        return [one for one in self.input if one.startswith(checks.PATTERN)]


class InputConfig(Section):
    """The format of a source record."""

    format: Literal["json", "text", "avro", "protobuf", "json-schema"] = key(
        "json",
        "format of a record's value; the last three begin with the id of a schema in a schema registry",
        note="avro and protobuf need the extra stream-dedup[registry]",
    )
    id_field: _OnePath = key("id", "field with the article's id", form=_ONE_FIELD)
    text_field: _Path = key("text", "field with the article's text", form=_FIELD)
    fields: Annotated[dict[str, int], BeforeValidator(checks.split_weights), AfterValidator(checks.field_weights)] = (
        key(
            {},
            "fields that make up the text, with their weights; empty: text_field alone",
            form='a table such as { title = 3, text = 1 }, "title=3,text=1" in the environment',
            note=f"weights 1 to {MAX_FIELD_WEIGHT}; names may be paths, in quotes",
        )
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
    html_fields: Annotated[list[str], BeforeValidator(checks.split_list)] = key(
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

    url: Annotated[str, AfterValidator(checks.http_url)] | None = key(
        None,
        "address of the registry's Confluent-compatible API",
        form="http:// or https:// with host, port and path",
        unset="none",
    )
    username: str | None = key(None, "user name (basic authentication)", form="text", min_length=1)
    password: SecretStr | None = key(None, "password", form="text, preferably in password_file")
    password_file: Path | None = key(None, "file that contains the password", form="a readable file")
    token_file: Path | None = key(
        None,
        "file that contains the token (bearer authentication), read at each request",
        form="a readable file, which something else renews",
    )
    ssl_cafile: Path | None = key(
        None, "certificates of the trusted authorities", form="a PEM file", unset="the system's"
    )

    def secret(self) -> str | None:
        """Return the password, from the key or from its file."""
        return _secret(self.password, self.password_file)

    def token(self) -> str | None:
        """Return the token, as its file has it now."""
        return _secret(None, self.token_file)


_Handling = Literal["keep", "drop", "token"] | None


def _handling(subject: str) -> _Handling:
    """Declare a key that says what normalisation does with one kind of character sequence."""
    handling: _Handling = key(
        None, f"handling of {subject}", note="token: all of them count as one word", unset=PROFILE_DEFAULT
    )
    return handling


class TextConfig(Section):
    """The normalisation of a text before its features are taken: part of the scheme."""

    urls: _Handling = _handling("URLs")
    emails: _Handling = _handling("e-mail addresses")
    users: _Handling = _handling("user names (@name)")
    numbers: _Handling = _handling("numbers")
    emoji: _Handling = _handling("emoji")
    invisible: bool | None = key(None, "remove zero-width and control characters", unset=PROFILE_DEFAULT)
    tags: bool | None = key(
        None,
        "remove stray HTML tags, the targets of Markdown links and the times of subtitles from plain text",
        unset=PROFILE_DEFAULT,
    )
    entities: bool | None = key(None, "read entities of HTML (&lt;) in plain text as characters", unset=PROFILE_DEFAULT)
    join_numbers: bool | None = key(None, "read 3.50 and 2024-05-01 as one number each", unset=PROFILE_DEFAULT)
    rejoin: bool | None = key(
        None, "remove white space between two ideographs, as PDF and scans leave it", unset=PROFILE_DEFAULT
    )
    simplify: bool | None = key(None, "read traditional Chinese as simplified Chinese", unset=PROFILE_DEFAULT)
    unspace: bool | None = key(None, "remove spaces and symbols between single characters", unset=PROFILE_DEFAULT)
    repeats: bool | None = key(None, "shorten a character that is repeated many times", unset=PROFILE_DEFAULT)
    lookalikes: bool | None = key(
        None, "read look-alike letters and digits as the characters that they imitate", unset=PROFILE_DEFAULT
    )
    article_size: int | None = key(
        None,
        "a text below this size is short; from half to four times of it its features are characters and words",
        form="letters",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=MAX_TEXT_SIZE,
    )
    exact_size: int | None = key(
        None,
        "a text below this size is near equal texts only",
        form="characters",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=MAX_TEXT_SIZE,
    )


class FeaturesConfig(Section):
    """The features of a long text and their weights: part of the scheme."""

    kind: Literal["words", "chars"] | None = key(None, "features of a long text", unset=PROFILE_DEFAULT)
    weights: Literal["tfidf", "tf", "level"] | None = key(None, "weighting of words", unset=PROFILE_DEFAULT)
    top_k: int | None = key(
        None,
        "number of features that count, the heaviest first",
        note="0: all",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=100_000,
    )
    damped: bool | None = key(None, "damp the count of a repeated word (1 + damping ln n)", unset=PROFILE_DEFAULT)
    damping: int | None = key(
        None, "weight that a repeated word gains where counts are damped", unset=PROFILE_DEFAULT, ge=1, le=16
    )
    idf: Literal["jieba", "languages"] | None = key(
        None, "word frequencies: jieba's table alone, or other languages as well", unset=PROFILE_DEFAULT
    )
    root: bool | None = key(None, "take the square root of a word's IDF", unset=PROFILE_DEFAULT)
    key_sentences: int = key(
        0,
        "additional count of the longest sentence and of the first and last sentence of each paragraph",
        ge=0,
        le=MAX_FIELD_WEIGHT,
    )
    user_dictionary: Path | None = key(None, "words that are never split", form="a UTF-8 file, one word on each line")
    stop_words: Path | None = key(None, "words that do not count", form="a UTF-8 file, one word on each line")
    seed: int = key(0, "seed of the feature hash", ge=0, le=4_294_967_295)
    tables: Annotated[TableCount, BeforeValidator(checks.whole)] = key(
        4, "number of block tables: 4 cover the fingerprint, 8 or 16 cover more of the signature"
    )
    block_bits: Annotated[BlockBits, BeforeValidator(checks.whole)] = key(
        16, "bits of a key of a block table: wider keys have shorter posting lists, which pays in large indexes"
    )


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

    threads: int | None = key(
        None,
        "fingerprinting threads",
        unset="one for each core of its affinity and CPU quota",
        ge=1,
        le=256,
    )
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


class GroupsConfig(Section):
    """The groups of articles that ``stream-dedup serve`` keeps."""

    keep: Annotated[str, AfterValidator(checks.duration)] | None = key(
        None,
        "time for which an article stays in its group, counted from its output",
        form="a duration such as 90d",
        note="at least 7d, and at least match.window",
        unset="twice match.window, at least 8d; for ever without a window",
    )

    @property
    def keep_ms(self) -> int | None:
        """The time in milliseconds; None if it is not set."""
        return None if self.keep is None else checks.parse_duration_ms(self.keep)


class MetricsConfig(Section):
    """The HTTP server of the metrics."""

    address: Annotated[str, AfterValidator(checks.metrics_address)] = key(
        "127.0.0.1:9464",
        "address that serves /metrics, /healthz and /readyz",
        form='host:port (port 0: any free port) or "off"',
    )


def _secret(value: SecretStr | None, path: Path | None) -> str | None:
    if value is not None:
        return value.get_secret_value()
    if path is None:
        return None
    try:
        return path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"secret file {path}: cannot be read as UTF-8 text; name a readable UTF-8 file"
        raise ConfigError([msg]) from error
