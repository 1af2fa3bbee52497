"""The native core (``native/``): bytes in, bytes out; arrays are little-endian. Every call may come from any thread."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, final

from stream_dedup.core.arrays import I64, U8, U32, U64
from stream_dedup.core.query import Articles
from stream_dedup.core.rules import Rules
from stream_dedup.core.scheme import FingerprintSettings

KEY_FACTORS: list[int]
"""Factor of the scope hash for each of the four key words."""
OPENCC_HASHES: list[str]
"""XXH3-64 of each dictionary of OpenCC's conversion t2s that was built in, in the order of its configuration."""

SURE_BITS: tuple[int, int]
"""The sieve of sure bits takes so many of the surest bits of the article's key word, those of the largest margins, and
so many of these twice. Among equal margins the lower bit comes first."""
SURE_SIEVE_BITS: int
"""So many of them may differ at most."""
WORD_SIEVE_BITS: int
"""The sieve of a scheme without sketches takes the whole key word: so many of its bits may differ at most."""
FIRM_MARGIN: int
"""Margin of a bit of the fingerprint below which it counts against domination: half of the length of the weights."""

DATA_HASHES: dict[str, str]
"""XXH3-64 of the files that the tables of words were made of, by name: those of jieba's package, and our own."""

MAX_ID_BYTES: int
"""Most bytes of an id, in UTF-8."""

FieldAt: TypeAlias = tuple[bytes, Sequence[bytes | int | None]]
"""The name of a field, in UTF-8 with ``surrogatepass``, and its path: members, elements, and None for all elements."""

Reason: TypeAlias = tuple[str, int, int, str, str]
"""Why a record is rejected: name of its text in ``core.reasons``, a size or a position, a limit, fields, a kind."""

Entries: TypeAlias = tuple[bytes, bytes, bytes, tuple[bytes, bytes, bytes], bytes, bytes, list[tuple[int, Reason]]]
"""What log entries have of records: see ``TextReader.entries``."""

class DamageError(ValueError):
    """Stored bytes are not what their key says."""

class PanicError(RuntimeError):
    """A panic, which is a defect of the native core. Any call may raise it; the tables refuse every further one.

    ``Format.decode``, ``TextReader.read`` and ``TextReader.entries`` do not: they reject the record.
    """

    article: int | None
    """Number of the article at which a search panicked, or a text had no fingerprint; None of everything else."""

def usable_cores() -> int:
    """Return the whole cores that affinity and the CPU quotas of control groups leave to this process, at least 1."""

def plans(margins: U8, lookups: int, *, tables: int, block_bits: int, mask_bits: int, costs: Sequence[int]) -> bytes:
    """Return the plans of directed search, uint32, ``lookups`` of each article; see ``core.probes.directed``.

    Args:
        margins: packed as in log entries, 8 bytes a table, of all articles, one after the other.
        lookups: of each article.
        tables: number of block tables, 1 to 16.
        block_bits: bits of a block.
        mask_bits: most bits of a block that a look-up flips.
        costs: of flipping a bit, by its margin; 16 rising numbers.

    Raises:
        ValueError: there are fewer look-ups, or a number is out of its range.
    """

@final
class Limits:
    """What the rules of a log say of near. Every array may have any number of dimensions; it is read row by row.

    Where pairs are compared, articles are one for each entry, or one for all of them. Each method raises ValueError
    where arrays have other lengths than it says.
    """

    def __init__(self, rules: Rules) -> None:
        """Read the rules, by the names that ``core.rules.Rules`` and its scheme have.

        Raises:
            ValueError: no scheme has such widths.
        """

    def dominated(self, statuses: U8, margins: U8) -> bytes:
        """Return of each article 1 if it is dominated, 2 if strongly so, 0 if not; ``margins`` as in log entries."""

    def masks(self, margins: U8) -> bytes:
        """Return what the sieve compares of each article's key words: uint64, two of each word that has tables.

        They are the bits that count, and those that count again: of the sieve of sure bits the ``SURE_BITS`` of the
        largest margins, among equal ones the lower bit; else all, and none.
        """

    def accounts(
        self, statuses: U8, dominated: U8, articles: tuple[U64, U64], entries: tuple[U64, U64], reach: int | None = None
    ) -> bytes:
        """Return what the check finds in pairs of an article and an entry, and which of its conditions hold.

        Of each pair 16 bytes: the distances of the fingerprints and of the signatures, the one of them that is limited,
        the number of equal values, and how many must be equal at this distance, 2 bytes each; how the forms compare (0:
        one text has none, 1: other frames, 2: the same form, 3: one frame and other numbers); and whether the distance
        is within reach, the forms hold, the distance is certain, enough values are equal, and the entry is near, one
        byte each. ``core.near`` reads them.

        Args:
            statuses: of the articles.
            dominated: of each article, as ``dominated`` returns it.
            articles: words of their signatures, four each, and of their sketches.
            entries: those of the entries.
            reach: greatest distance in bits, whatever the status; None: that of the rules.
        """

    def distances(self, words: U64, others: U64) -> bytes:
        """Return the limited distance of each signature from every other, in bits, uint16, those of one together."""

    def meetings(
        self, statuses: U8, keys: U64, masks: U64, others: U64, plan: U32, lookups: int
    ) -> tuple[bytes, bytes, bytes]:
        """Return what the sieve and a plan of look-ups make of the keys of pairs of an article and an entry.

        Of each key word of a pair, what the sieve counts, and whether it passes that, one byte each; of each table
        (four of a word) the place in the plan, from 0, of the look-up whose posting list has the entry, int32,
        2**31 - 1 where there is none.

        Args:
            statuses: of the articles.
            keys: key words of the articles, 1 to 4 each: those that have tables, or any one of them.
            masks: of each key word of an article, as ``masks`` gives them.
            others: key words of the entries.
            plan: look-ups ``table << block_bits | mask`` of each article, or of all of them, one plan after the other.
            lookups: of a plan; 0: places are not asked for, and there are none.
        """

@final
class JoinedBatches:
    """Plain batches whose columns are joined."""

    batches: list[tuple[int, bool, int, int, int, int, bool, int, int]]
    """Of each plain batch the number of its value, whether it is seeded, ``read_to``, partition, entries, bytes of the
    topic's name, whether all texts are ASCII, bytes of its ids and of its reasons."""
    widths: list[int]
    """Widths of the columns, by kind."""
    begins: list[int]
    """Where in ``columns`` those of each kind begin."""
    columns: bytes
    ids: bytes
    reasons: bytes

def join_batches(
    values: Sequence[bytes],
    *,
    version: int,
    kinds: tuple[int, int],
    widths: Sequence[Sequence[int]],
    special: tuple[int, int, int, int],
    last_status: int,
    most_entries: int,
) -> JoinedBatches:
    """Join the columns of the plain ones among some values of log records; see ``core.entry``.

    Args:
        values: of log records.
        version: byte of the format.
        kinds: of a batch, and of a seeded one.
        widths: that a column may have, by its kind, the least one first; none of a kind that there is not.
        special: kinds of the columns of offsets, statuses, ids and reasons.
        last_status: the greatest one.
        most_entries: of a batch.
    """

class Storage(Protocol):
    """Where block tables are stored. What a method raises ends the call that needed it, and is raised there."""

    def read(self, keys: list[bytes]) -> list[bytes]:
        """Return the values of chunks; ``b""`` where there is none."""

    def write(self, chunks: list[tuple[bytes, bytes]]) -> None:
        """Store chunks: keys and values."""

    def name(self, named: tuple[int, bytes] | None, removed: list[int], runs: list[int]) -> None:
        """Name a run, whose chunks are all stored, by its directory, and remove others; then there are these runs."""

@final
class BlockTables:
    """The block tables and rows of an index.

    Calls that read chunks raise DamageError where a value is not what its key says, and what the storage raises. After
    any error of ``append``, ``go_on`` and ``drop_before`` the tables must not be changed any more.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        tables: int,
        block_bits: int,
        row_words: int,
        chunk_rows: int,
        first: int,
        after: int,
        tail: bytes,
        memory_bytes: int,
        fold_entries: int,
        chunk_entries: int,
        next_run: int,
        run_families: int,
    ) -> None:
        """Hold the rows of the document numbers ``first`` to before ``after``, all stored, and no entries yet.

        Args:
            storage: where the tables are stored.
            tables: number of tables.
            block_bits: bits of a block.
            row_words: words of 8 bytes of a row.
            chunk_rows: rows of a stored chunk.
            first: document number of the first entry that is not trimmed.
            after: document number of the next entry.
            tail: rows of the last chunk, if it is not full.
            memory_bytes: budget of the cache.
            fold_entries: entries of a table in memory that become a stored run.
            chunk_entries: entries of each chunk of the runs that are made, 65,535 at most.
            next_run: a number that no run has had.
            run_families: runs are stored in so many families, by the remainder of their numbers.
        """

    def open_run(self, run: int, directory: bytes) -> None:
        """Take a stored run, of each table the oldest first; DamageError where its directory is of other tables."""

    def append_missing(self) -> None:
        """Append the entries of stored rows to the tables whose runs lack them, once the runs are open."""

    def append(self, rows: bytes) -> None:
        """Append the entries of the next rows, and go on with merges."""

    def go_on(self, entries: int) -> None:
        """Go on with merges as if so many entries were appended."""

    def drop_before(self, number: int) -> None:
        """Forget entries before a document number."""

    def cold(self, most: int) -> list[bytes]:
        """Return keys of chunks that are not in memory and for which there is room."""

    def supply(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Take stored chunks, as far as the budget has room for them; DamageError as calls that read them."""

    @property
    def runs(self) -> list[tuple[int, int | None, int, int]]:
        """Of each run its table, number, entries, and document number before which they are.

        Behind those of a table its entries that are in no run yet, without a number.
        """

    @property
    def memory(self) -> int:
        """Bytes in memory."""

    def sum(self, table: int) -> tuple[int, int]:
        """Return the number of a table's entries that are not trimmed, and the sum of them, mixed, modulo 2**64."""

    def rows_of(self, numbers: I64) -> bytes:
        """Return the rows of document numbers; ValueError where there is none of one of them."""

    def near(
        self,
        limits: Limits,
        articles: Articles,
        plan: U32,
        lookups: int,
        *,
        best: int,
        withdrawn: I64,
        own_ids: U64 | None = None,
    ) -> tuple[bytes, bytes, bytes, int]:
        """Search for the near entries of articles; ``core.query.Query`` says what the arguments are.

        A plan has so many look-ups. Returns numbers of articles, int64, document numbers, int64, and distances, uint16,
        of the near entries; and how many entries were compared.
        """

@final
class Format:
    """How the values of records are read; ``native/src/decode.rs`` says what is readable."""

    def __new__(
        cls,
        *,
        is_json: bool,
        most_bytes: int,
        id_field: FieldAt,
        scope_field: FieldAt | None,
        text_fields: Sequence[FieldAt],
        may_lack_texts: bool,
        key_field: FieldAt | None = None,
        takes_deletes: bool = False,
        operation: tuple[FieldAt, bytes, FieldAt] | None = None,
    ) -> Format:
        """Set the format.

        Args:
            is_json: whether a value is a JSON object; else it is the text.
            most_bytes: size limit of a value.
            id_field: field with the id.
            scope_field: field with the scope; None if there are no scopes.
            text_fields: fields that make the text, in order.
            may_lack_texts: whether text fields may be missing as long as one is there.
            key_field: field with the id in a key that is a JSON object; None: a key is the id.
            takes_deletes: whether a record without a value is a delete.
            operation: field that says whether an object is a delete, what it says then, and the field with its id.
        """

    def key_id(self, key: bytes | None) -> str | None:
        """Return the id of a record without an id field, or None where its key has none, or a longer one than any."""

    def decode(
        self, key: bytes | None, value: bytes | None, fallback: str
    ) -> tuple[str, tuple[str, ...], str | None, Reason | None]:
        """Return id, texts and scope of a record, and why there is no article.

        ``fallback`` is the id of a record that has none.
        """

    def has_text(self, value: bytes) -> bool:
        """Whether a value is an object of which a text field is text."""

def field(value: bytes, at: FieldAt) -> tuple[str, str] | None:
    """Return what an object has at a path to one value: its kind, and a text, or a number as it is written.

    None where there is nothing, or no object that can be read.
    """

def field_id(value: bytes, at: FieldAt) -> str | None:
    """Return the id that an object has at a path to one value; None where there is neither text nor a number."""

def quoted_names(value: bytes, names: Sequence[FieldAt]) -> bytes | Reason:
    """Return a JSON object in which the numbers at these paths are texts, as ids are, or why it cannot be read."""

def stripped_lines(lines: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Return what is not blank of some lines, without white space and byte order marks around it.

    Also the number of each among the lines, from 0.
    """

def marked_lines(
    lines: Sequence[bytes],
    *,
    fingerprints: U64,
    said: Mapping[int, bytes],
    whole: Mapping[int, bytes],
    outputs: bytes | bytearray,
    is_plain: bool,
) -> list[bytes]:
    """Return what is written of some lines to each output, up to the last one that is written to.

    Args:
        lines: JSON objects, but for those that are written in another way.
        fingerprints: of each line.
        said: what the member ``dedup`` of a row says where its record is like another one, or rejected.
        whole: what is written for a row, its line feed included, in place of its line.
        outputs: number of the output of each line.
        is_plain: lines are written as they came.
    """

def text_of_html(html: str, *, marks_quotes: bool = False) -> str:
    """Return the text of a page or of a fragment of HTML, each block on its own line; the text itself if it is none.

    Args:
        html: the page.
        marks_quotes: whether block quotations keep their tags, by which the step of quotes finds them.
    """

def readable(text: str, *, is_html: bool, entities: bool, tags: bool) -> str:
    """Return a text without markup, its paragraphs on lines; the text itself if it has none.

    Args:
        text: a field of an article.
        is_html: whether it is a page or a fragment of HTML.
        entities: whether entities are undone.
        tags: whether tags, comments, entities and the targets of links are dropped.
    """

Explained: TypeAlias = tuple[
    tuple[int, str, list[tuple[str, int, int, bytes]], list[int]],
    tuple[bytes, bytes, bytes],
    tuple[str, str],
]
"""Status, text, features (name, count, weight, hash) and sums; signature, margins and sketch; frame and numbers."""

@final
class TextReader:
    """Reads texts under one scheme: what entries have of them, and what that is made from.

    Texts are given by their fields, in the order of the settings, without markup; half surrogates are allowed. A
    thread keeps its scratch memory, for all readers, until it ends.
    """

    def __init__(
        self, settings: FingerprintSettings, words: Sequence[tuple[str, int | None]], stop_words: Sequence[str]
    ) -> None:
        """Read texts as the settings say.

        Args:
            settings: a copy is made of what concerns texts.
            words: for the segmenter's dictionary, each with its frequency; without one it gets the least by which it is
                not cut. They are simplified where texts are, and what has other characters than ideographs is left out.
            stop_words: do not count; they are normalised as texts are.

        Raises:
            ValueError: a setting has a value that is not known, or a weight of grams is greater than 1,000 or one of a
                field greater than 100: sums of greater weights could overflow.
        """

    def read(self, texts: Sequence[Sequence[str]]) -> tuple[bytes, bytes, bytes, bytes]:
        """Return statuses, signatures, margins and sketches of texts, each joined.

        A status is one byte (``model.Status``), a signature 32; margins are packed, two in a byte; a sketch ends with
        the form. What a text has not is zero. A text at which the core panics is rejected, and has nothing else; the
        panic's message is on standard error.
        """

    def entries(
        self, fmt: Format, html: Sequence[bool], records: Sequence[tuple[bytes | None, bytes | None, str]]
    ) -> Entries:
        """Return what log entries have of records: key, value, and the id where neither has one.

        Checksums, statuses and scope hashes (8 bytes, 1, 8); signatures, margins and sketches, as ``read``; the size of
        each id (4 bytes), and the ids joined; the rejected rows, each with its reason. ``html`` says of which fields
        the text is HTML. A record at which the core panics is rejected.
        """

    def line_entries(
        self, fmt: Format, html: Sequence[bool], lines: Sequence[bytes], source: str, numbers: Sequence[int]
    ) -> Entries:
        """Return the same for lines of a file: records without keys, whose fallback ids are ``source:number``."""

    def explain(self, fields: Sequence[str]) -> Explained:
        """Return what a text's entry is made from: with names in place of tokens, features heaviest first."""

    def weigh(self, counts: Sequence[tuple[str, int]], is_long: bool) -> Explained:
        """Return the same of features that the caller counted, as those of a long text or of a short one."""
