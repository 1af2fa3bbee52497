"""The sections of the configuration: every key with its default, its meaning and what may be given.

Rules: a key that depends on the profile is None where it is not given (``effective`` says what is then in
force); what a value must be alone stands here, what it must be beside others in ``across``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from stream_dedup.config import checks
from stream_dedup.config.checks import (
    MAX_DISTANCE,
    MAX_FIELD_WEIGHT,
    MAX_LIMIT,
    MAX_PROBES,
    MAX_SIZE,
    ConfigError,
    parse_duration_ms,
)

_BOOL = "true or false"
_HANDLING = "keep, drop or token (all of a kind count as one word)"
_SIZE = f"0 to {MAX_SIZE}"

_Topic = Annotated[str, AfterValidator(checks.topic_name)]
_Topics = Annotated[list[_Topic], BeforeValidator(checks.split_list), Field(min_length=1)]
_Seconds = Annotated[float, Field(ge=0.001, le=86_400, allow_inf_nan=False)]


def key(default: Any, meaning: str, give: str, **constraints: Any) -> Any:  # noqa: ANN401 - as pydantic's Field
    """A key of the configuration: its default, what it means and what may be given."""
    return Field(default, description=meaning, json_schema_extra={"give": give}, **constraints)


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class KafkaConfig(Section):
    """How to reach the brokers."""

    brokers: Annotated[str, AfterValidator(checks.broker_list)] = key(
        "127.0.0.1:9092", "brokers to begin with", "host:port, several with commas"
    )
    group: Annotated[str, AfterValidator(checks.group_name)] = key(
        "stream-dedup",
        "consumer group; its log is the topic GROUP.fingerprints",
        "letters, digits, '.', '_' and '-'",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = key(
        "PLAINTEXT", "how the connection is secured", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    ssl_cafile: Path | None = key(None, "certificates of the authorities to trust", "a PEM file")
    ssl_certfile: Path | None = key(None, "the client's certificate", "a PEM file")
    ssl_keyfile: Path | None = key(None, "the client's private key", "a PEM file")
    ssl_check_hostname: bool = key(
        default=True, meaning="whether the broker's certificate must bear its name", give="true or false"
    )
    ssl_password: SecretStr | None = key(None, "password of the private key", "a text, better in ssl_password_file")
    ssl_password_file: Path | None = key(None, "file that holds the private key's password", "a readable file")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = key(
        None, "how the client says who it is", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    )
    sasl_username: str | None = key(None, "user name", "a text")
    sasl_password: SecretStr | None = key(None, "password", "a text, better in sasl_password_file")
    sasl_password_file: Path | None = key(None, "file that holds the password", "a readable file")
    session_timeout_s: _Seconds = key(
        10, "silence after which the group gives a worker's partitions away", "seconds, 0.001 to 86400"
    )
    transaction_timeout_s: _Seconds = key(
        30,
        "age at which the broker aborts an open transaction",
        "seconds, 0.001 to 86400; the broker allows 900 by default",
    )
    broker_wait_s: _Seconds = key(
        60, "how long the worker waits for a broker that is away before it stops", "seconds, 0.001 to 86400"
    )
    max_record_bytes: int = key(
        1_048_576,
        "largest source record; output topics must hold it and its headers",
        "bytes, 1024 to 268435456",
        ge=1024,
        le=268_435_456,
    )

    def sasl_secret(self) -> str | None:
        """The SASL password, from the key or from its file."""
        return _secret(self.sasl_password, self.sasl_password_file)

    def ssl_secret(self) -> str | None:
        """The private key's password, from the key or from its file."""
        return _secret(self.ssl_password, self.ssl_password_file)


class TopicsConfig(Section):
    """Where articles come from and where verdicts go."""

    input: _Topics = key(["articles"], "topics with articles", "topic names, with commas in the environment")
    unique: _Topic = key("unique", "topic of articles seen for the first time", "a topic name")
    duplicate: _Topic = key("duplicate", "topic of duplicates", "a topic name")
    rejected: _Topic = key("rejected", "topic of records that cannot be read", "a topic name")
    create: bool = key(default=True, meaning="whether missing topics are made at the start", give="true or false")
    partitions: int = key(1, "partitions of input and output topics that are made", "1 to 10000", ge=1, le=10_000)


class InputConfig(Section):
    """How a record is read."""

    format: Literal["json", "text"] = key("json", "what a record's value is", "json or text")
    id_field: str = key("id", "field with the article's id", "a field's name", min_length=1)
    text_field: str = key("text", "field with the article's text", "a field's name", min_length=1)
    fields: Annotated[dict[str, int], BeforeValidator(checks.split_weights), AfterValidator(checks.field_weights)] = (
        key(
            {},
            "fields whose texts make the article, with their weights (text_field alone where not given)",
            f'a table as {{ title = 3, text = 1 }}, in the environment "title=3,text=1"; 1 to {MAX_FIELD_WEIGHT}',
        )
    )
    scope_field: str | None = key(
        None, "field of the site, tenant or thread: articles match only within theirs", "a field's name", min_length=1
    )
    markup: Literal["plain", "html"] = key("plain", "what the texts are", "plain or html")
    html_fields: Annotated[list[str], BeforeValidator(checks.split_list)] = key(
        [], "fields that are HTML while the others are plain", "names among the fields, with commas in the environment"
    )
    max_bytes: int = key(1_000_000, "a longer value is rejected", "bytes, 1 to 268435456", ge=1, le=268_435_456)


_Handling = Literal["keep", "drop", "token"] | None


class TextConfig(Section):
    """What becomes of a text before its features are taken: part of the scheme."""

    urls: _Handling = key(None, "what becomes of URLs", _HANDLING)
    emails: _Handling = key(None, "what becomes of e-mail addresses", _HANDLING)
    users: _Handling = key(None, "what becomes of user names (@name)", _HANDLING)
    numbers: _Handling = key(None, "what becomes of numbers", _HANDLING)
    emoji: _Handling = key(None, "what becomes of emoji", _HANDLING)
    invisible: bool | None = key(None, "whether zero-width and control characters are taken out", _BOOL)
    tags: bool | None = key(
        None, "whether stray HTML tags and the targets of Markdown links are taken out of plain text", _BOOL
    )
    join_numbers: bool | None = key(None, "whether 3.50 and 2024-05-01 are one number each", _BOOL)
    simplify: bool | None = key(None, "whether traditional Chinese is read as simplified", _BOOL)
    unspace: bool | None = key(None, "whether spaces and symbols between single characters are taken out", _BOOL)
    repeats: bool | None = key(None, "whether a character repeated many times is shortened", _BOOL)
    lookalikes: bool | None = key(None, "whether look-alike letters and digits are read as what they look like", _BOOL)
    article_size: int | None = key(
        None, "characters below which a text is short: fingerprinted by its characters", _SIZE, ge=0, le=MAX_SIZE
    )
    exact_size: int | None = key(None, "characters below which only an equal text is near", _SIZE, ge=0, le=MAX_SIZE)


class FeaturesConfig(Section):
    """What a long text's features are and what they weigh: part of the scheme."""

    kind: Literal["words", "chars"] | None = key(None, "what the features of a long text are", "words or chars")
    weights: Literal["tfidf", "tf", "level"] | None = key(None, "how a word is weighed", "tfidf, tf or level")
    top_k: int | None = key(None, "only so many of the heaviest count", "1 to 100000, 0 for all", ge=0, le=100_000)
    damped: bool | None = key(None, "whether a word's count is damped (1 + damping ln n)", _BOOL)
    damping: int | None = key(None, "how much a repeated word gains when counts are damped", "1 to 16", ge=1, le=16)
    idf: Literal["jieba", "languages"] | None = key(
        None, "frequencies of words: jieba's table alone, or beyond it other languages too", "jieba or languages"
    )
    root: bool | None = key(None, "whether the square root of a word's IDF is taken", _BOOL)
    key_sentences: int = key(
        0,
        "how many times more the first and last sentence of each paragraph and the longest one count",
        f"0 to {MAX_FIELD_WEIGHT}",
        ge=0,
        le=MAX_FIELD_WEIGHT,
    )
    segmenter: Literal["rjieba", "jieba"] = key(
        "rjieba", "which program cuts Chinese into words; both cut alike, jieba slower", "rjieba or jieba"
    )
    user_dictionary: Path | None = key(None, "words that are never cut", "a UTF-8 file, a word a line")
    stop_words: Path | None = key(None, "words that do not count", "a UTF-8 file, a word a line")
    seed: int = key(0, "seed of the hash of features", "0 to 4294967295", ge=0, le=4_294_967_295)
    tables: Annotated[Literal[4, 8, 16], BeforeValidator(checks.whole)] = key(
        4, "block tables: 4 over the fingerprint, 8 or 16 over more of the signature", "4, 8 or 16"
    )


class MatchConfig(Section):
    """When an article is a duplicate."""

    profile: Literal["article", "comment", "simhash"] = key(
        "article", "named set of defaults for text, features and search", "article, comment or simhash"
    )
    search: Literal["exact", "directed"] | None = key(
        None,
        "exact: every fingerprint within distance; directed: the probes most likely to find one",
        "exact or directed",
    )
    distance: int | None = key(
        None,
        "exact search: bits in which two fingerprints may differ",
        f"0 to {MAX_DISTANCE}",
        ge=0,
        le=MAX_DISTANCE,
    )
    probes: int | None = key(
        None, "directed search: lists looked up for an article", f"1 to {MAX_PROBES}", ge=1, le=MAX_PROBES
    )
    limit: int | None = key(
        None, "directed search: bits of 256 in which two signatures may differ", f"0 to {MAX_LIMIT}", ge=0, le=MAX_LIMIT
    )
    short_limit: int | None = key(
        None,
        "the same for short texts (where every text is short, match.limit is theirs too)",
        f"0 to {MAX_LIMIT}",
        ge=0,
        le=MAX_LIMIT,
    )
    bucket_limit: int = key(
        16_384, "newest entries compared in each list that is looked up", "1 to 1048576", ge=1, le=1_048_576
    )
    window: Annotated[str, AfterValidator(checks.duration)] | None = key(
        None, "how long an article is remembered (for ever where not given)", 'a number and s, m, h or d, as "24h"'
    )
    featureless: Literal["unique", "rejected"] = key(
        "unique", "verdict of a text without words (only punctuation)", "unique or rejected"
    )
    recrawl: Literal["duplicate", "update"] = key(
        "duplicate",
        "what an article near an earlier one of its own id is: a duplicate, or an update, which leaves as unique",
        "duplicate or update",
    )
    observe: bool = key(
        default=False,
        meaning="whether every record goes to the topic of unique ones, with its verdict in its headers",
        give=_BOOL,
    )

    @property
    def window_ms(self) -> int | None:
        """The window in milliseconds, None for ever."""
        return None if self.window is None else parse_duration_ms(self.window)


class IndexConfig(Section):
    """The index on disk: a cache of the log."""

    path: Path = key(Path("index"), "folder of the index; one worker each", "a folder on a local disk")
    fold_entries: int = key(
        131_072,
        "articles held in memory before they are folded into the tables",
        "1 to 1048576",
        ge=1,
        le=1_048_576,
    )
    block_cache_mib: int = key(256, "memory for blocks read from disk", "MiB, 1 to 1048576", ge=1, le=1_048_576)
    image_mib: int = key(
        1024,
        "memory for the image of the tables; what does not fit is looked up on disk",
        "MiB, 0 (no image) to 1048576",
        ge=0,
        le=1_048_576,
    )


class WorkerConfig(Section):
    """How much a worker does at once."""

    processes: int | None = key(
        None,
        "fingerprinting processes (0: none of their own; one for each core where not given)",
        "0 to 256",
        ge=0,
        le=256,
    )
    article_limit_s: float = key(
        10,
        "processor time that one article may take to be fingerprinted; one that takes more is rejected",
        "seconds, 1 to 3600",
        ge=1,
        le=3600,
        allow_inf_nan=False,
    )
    batch_records: int = key(500, "records in one batch at most", "1 to 10000", ge=1, le=10_000)
    max_inflight_batches: int = key(32, "batches under way at once", "1 to 1000", ge=1, le=1000)
    shutdown_s: _Seconds = key(20, "how long a stop may take before it is cut short", "seconds, 0.001 to 86400")
    clock_allowance_s: float = key(
        60,
        "how far a broker's clock may be set back before a trim could change a verdict",
        "seconds, 0 to 86400",
        ge=0,
        le=86_400,
        allow_inf_nan=False,
    )
    watchdog_s: _Seconds = key(60, "a call to the broker that takes longer stops the worker", "seconds, 0.001 to 86400")


class MetricsConfig(Section):
    """Where metrics are served."""

    address: Annotated[str, AfterValidator(checks.metrics_address)] = key(
        "127.0.0.1:9464", "where /metrics, /healthz and /readyz are served", 'host:port (port 0: any free one) or "off"'
    )


def _secret(value: SecretStr | None, path: Path | None) -> str | None:
    if value is not None:
        return value.get_secret_value()
    if path is None:
        return None
    try:
        return path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"secret file {path}: cannot be read as UTF-8 text; name one that can"]) from error
