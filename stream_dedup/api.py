"""The index of the Python API, usable without Kafka: to add articles to, and to search.

>>> from stream_dedup import Index, distance, fingerprint
>>> distance(fingerprint("the cat sat on the mat"), fingerprint("the cat sat on the mat"))
0
>>> with Index() as index:
...     index.add("first", "the cat sat on the mat")
...     [match.id for match in index.search("The cat sat on the mat!")]
['first']

The articles that a program adds are a log, which is in the index alone.

Each portion of added articles is one batch of that log: its source offsets follow those before it, log times are 0. The
log begins with a rules record because every log does; each search states its own rules, so the record only carries the
scheme.
"""

from __future__ import annotations

import _thread
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn, Self, SupportsIndex, TypeVar

import numpy as np

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, Payload, encode, make_batch
from stream_dedup.core.fingerprinter import Fingerprints
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import (
    FINGERPRINT_BITS,
    LIBRARY_LOG_PREFIX,
    SIGNATURE_BYTES,
    Status,
    scope_hash_of,
    similarity,
)
from stream_dedup.core.probes import words
from stream_dedup.core.profiles import DEFAULT_PROFILE, Profile
from stream_dedup.core.rules import DIRECTED, EXACT, Rules
from stream_dedup.core.scheme import scheme_of
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.fingerprints import checked_fingerprint, checked_number, checked_profile, checked_string, reader_of
from stream_dedup.folders import TemporaryFolder
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import RowArray

_T = TypeVar("_T")


PORTION = 512
"""Articles of one batch: a search reads a whole batch for the id of a match."""

_DISTANCE = 3
"""Bits: k of exact search where the profile has none."""


class Found(NamedTuple):
    """A near article: its id, its distance in bits, and the cosine estimated from the distance of the signatures.

    The distance is over the fingerprint in exact search, over the signature in directed search.
    """

    id: str
    distance: int
    similarity: float


class _Article(NamedTuple):
    id: str
    content: str | int
    scope: str | None


class _Made(NamedTuple):
    """Which of some articles have features, their fingerprints and scope hashes."""

    kept: I64
    fingerprints: Fingerprints
    scope_hashes: U64


class Index:
    """Finds near articles among those added, as a profile defines near.

    An index with a path is kept between programs; without a path it is in a temporary folder. ``profile`` is the
    name of a built-in one, or a ``Profile`` (``read_profile`` reads one from a file). Only articles of one scope and
    one kind (long, short, exact) can be near. Text without any feature is near nothing and is not kept.

    What was added is durable after ``flush`` or ``close``. After an error of the disk, or a defect of the native core
    (DefectError), the index refuses every call but ``close``; opened again it holds at least what was durable.

    A fingerprint can be added and searched for by its number too: as a long text, within k bits (exact search). Whole
    numbers of NumPy are accepted, bools are not.

    Threads: any number of threads may use an index at once. Calls take effect one after the other, each of them whole:
    a search finds every article whose ``add`` had returned before the search began. Another thread may add an article
    between a search and the ``add`` that follows it; ``add_if_new`` does both in one step. The text of a search is
    fingerprinted while other calls run. A signal does not cut off a call half-way: what its handler raises is raised
    when the index is whole. A handler, or a finalizer, that runs in the middle of a call of its own thread cannot make
    another one (RefusedError); ``close`` is carried out when that call has ended.

    Processes: the folder of an index belongs to one process, and to one ``Index`` of it; a second one is refused
    (UserError). A forked child cannot use its parent's index, nor open another; a process started anew can. The parent
    writes the articles that it added. Where the folder is removed or replaced while it is open, the index refuses every
    call but ``close``, and writes nothing more.

    An index that was never closed loses what was not flushed, and nothing else. Opening checks that the state, the last
    log record and the rows agree; ``stream-dedup index verify --index FOLDER`` reads everything. A damaged folder is
    refused (CorruptError); ``stream-dedup index rebuild --index FOLDER`` saves what can be read.
    """

    def __init__(self, path: Path | str | None = None, profile: str | Profile = DEFAULT_PROFILE) -> None:
        self._profile = checked_profile(profile)
        settings = self._profile.settings
        self._scheme = scheme_of(settings)
        with ExitStack() as opening:
            if path is None:
                path = opening.enter_context(TemporaryFolder())
            path = Path(path).absolute()  # the program may change its folder
            self._index = opening.enter_context(open_library(path, self._scheme))
            self._opened = opening.pop_all()
        self._calls = _Calls(f"index {path}")
        self._pending: list[_Article] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce_ex__(self, _protocol: SupportsIndex) -> NoReturn:
        """Refuse to be copied or pickled: both copies would write to one folder."""
        raise TypeError(
            "an Index cannot be copied or pickled: share it between threads; a process opens a folder of its own"
        )

    def __len__(self) -> int:
        """Articles held."""
        return self._alone(self._count)

    def add(self, id: str, content: str | SupportsIndex, scope: str | None = None) -> None:  # noqa: A002 - the word for it
        """Add an article by its text or its fingerprint.

        Raises:
            TypeError: an argument of another type; nothing is added.
            ValueError: a fingerprint not in 0 to 2**64 - 1, or the index is closed.
        """
        article = _article(id, content, scope)
        self._alone(lambda: self._add(article))

    def add_if_new(
        self,
        id: str,  # noqa: A002 - the word for it
        content: str | SupportsIndex,
        scope: str | None = None,
        *,
        probes: int | None = None,
        limit: int | None = None,
        k: int | None = None,
    ) -> list[Found]:
        """Add an article unless there are near ones; return those, as ``search`` does: none where it was added.

        One step: of several threads that give near articles at once, one adds its article, and the others find it.

        Raises:
            TypeError, ValueError: as ``add`` and ``search``; nothing is added.
        """
        article = _article(id, content, scope)
        return self._searched(article, probes, limit, k, adds=True)

    def search(
        self,
        content: str | SupportsIndex,
        scope: str | None = None,
        *,
        probes: int | None = None,
        limit: int | None = None,
        k: int | None = None,
    ) -> list[Found]:
        """Return the near articles: nearest first, then earliest added.

        Directed search takes ``probes`` and ``limit`` (bits of the signature), exact search ``k`` (bits of the
        fingerprint: 0 to 11, to 6 or to 5 with blocks of 16, 20 or 24 bits); the profile gives what the call does
        not. With ``k``, or for a fingerprint, the search is exact.

        Raises:
            TypeError: an argument of another type.
            ValueError: an argument that this search does not take, or out of its range; or the index is closed.
        """
        return self._searched(_article("", content, scope), probes, limit, k, adds=False)

    def flush(self) -> None:
        """Make everything added durable."""
        self._alone(self._flush)

    def close(self) -> None:
        """Make everything added durable and close; nothing the second time, nor in a forked child.

        Calls of other threads end before; those that come later raise ValueError.
        """
        if self._index.here:
            self._calls.run_or_defer(lambda: self._calls.uncut(self._close))

    def _alone(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns that no other call runs beside; refuse it before it waits, and after."""
        self._check_open()

        def checked() -> _T:
            self._check_open()
            self._index.refuse_stopped()
            return call()

        return self._calls.run(checked)

    def _count(self) -> int:
        self._settle()
        return self._index.state.next_doc_number

    def _add(self, article: _Article) -> None:
        self._pending.append(article)
        if len(self._pending) >= PORTION:
            self._settle()

    def _flush(self) -> None:
        self._settle()
        self._calls.uncut(self._index.flush)

    def _searched(
        self, article: _Article, probes: int | None, limit: int | None, k: int | None, *, adds: bool
    ) -> list[Found]:
        """Search for an article, and with ``adds`` add it if nothing is near."""
        self._check_open()
        rules = self._rules(
            isinstance(article.content, int), _count("probes", probes), _count("limit", limit), _count("k", k)
        )
        made = self._made([article])  # beside the calls of other threads
        return self._alone(lambda: self._found(article, made, rules, adds=adds))

    def _found(self, article: _Article, made: _Made, rules: Rules, *, adds: bool) -> list[Found]:
        self._settle()
        if not len(made.kept):
            return []
        near = self._index.near(made.fingerprints, made.scope_hashes, rules)
        if adds and not len(near.doc_numbers):
            self._append([article], made)
            return []
        rows = self._index.rows(near.doc_numbers)
        own = words(made.fingerprints.signatures)[0]
        likeness = [_similarity(own, other) for other in rows["signature"]]
        return list(map(Found, article_ids(self._index, rows), near.distances.tolist(), likeness))

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with self._opened:
            self._settle()

    def _check_open(self) -> None:
        """Refuse a call before it waits; it uses nothing that another call may close meanwhile."""
        if self._closed:
            raise ValueError("the index is closed: open it again")
        if not self._index.here:
            self._index.refuse_stopped()

    def _rules(self, number: bool, probes: int | None, limit: int | None, k: int | None) -> Rules:  # noqa: FBT001
        profile = self._profile
        if number or k is not None or profile.search == EXACT:
            distance = next(bits for bits in (k, profile.distance, _DISTANCE) if bits is not None)
            rules = Rules(self._scheme, search=EXACT, distance=distance, probes=probes, limit=limit)
        else:
            given = {"probes": probes, "limit": limit, "short_limit": limit}
            given = {name: value for name, value in given.items() if value is not None}
            rules = Rules(self._scheme, **(profile.rules | given | {"distance": None}))
        problems = rules.problems()
        if problems:
            raise ValueError("; ".join(problems))
        return rules

    def _settle(self) -> None:
        """Append the articles that wait."""
        if self._pending:
            self._append(self._pending, self._made(self._pending))

    def _append(self, articles: Sequence[_Article], made: _Made) -> None:
        """Append articles; those that wait are these, or none."""
        ids = [articles[at].id for at in made.kept.tolist()]
        records = records_of(self._index, made.fingerprints, made.scope_hashes, ids)

        def apply() -> None:
            # Until here an error leaves them waiting. Where applying fails the index refuses every later call, so
            # nothing may wait for one.
            self._pending = []
            self._index.apply(records)

        self._calls.uncut(apply)

    def _made(self, articles: Sequence[_Article]) -> _Made:
        texts = [article.content if isinstance(article.content, str) else "" for article in articles]
        settings = self._profile.settings
        made = Fingerprints.of(reader_of(settings).read(texts), settings.widths)
        statuses, signatures, margins = made.statuses.copy(), made.signatures.copy(), made.margins
        for at, article in enumerate(articles):
            if isinstance(article.content, int):
                statuses[at] = Status.LONG
                signatures[at] = signatures_of(np.array([article.content], np.uint64))[0]
        kept = np.flatnonzero(statuses != Status.FEATURELESS)
        scope_hashes = [scope_hash_of(Status(statuses[at]), articles[at].scope) for at in kept.tolist()]
        return _Made(
            kept,
            Fingerprints(signatures[kept], margins[kept], statuses[kept], made.sketches[kept]),
            np.array(scope_hashes, np.uint64),
        )


def _article(article_id: object, content: object, scope: object) -> _Article:
    """Return an article of checked arguments, a fingerprint as Python's own number."""
    article_id = checked_string("id", article_id)
    if not isinstance(content, str):
        content = checked_fingerprint("content", content, "a text or a fingerprint (str or int)")
    return _Article(article_id, content, None if scope is None else checked_string("scope", scope, "a str or None"))


def _count(name: str, value: object) -> int | None:
    """Return an optional number; its range is checked with the rules."""
    return None if value is None else checked_number(name, value, "an int or None")


def _similarity(a: U64, b: U64) -> float:
    """By the signatures; by the fingerprints where only that of one is known."""
    bits = np.bitwise_count(a ^ b)
    if a[1:].any() and b[1:].any():
        return similarity(int(bits.sum()))
    return similarity(int(bits[0]), FINGERPRINT_BITS)


_LOOK_S = 1.0
"""Seconds after which a signal that arrived just before a wait is handled."""

_WITHIN = "from within another call of it"
_AT_THE_END = "at the end of the interpreter, while a thread is in a call of it"


class _Calls:
    """Runs calls of one index from any number of threads: one at a time, each of them whole.

    * A call waits for the call of another thread. A call from within a call of the same thread (by a signal handler, or
      by a finalizer that the garbage collector runs) is refused: it would wait for itself, or see half of a change.
    * Handlers of signals run in the main thread, between any two of its steps. What must not be cut off half-way is
      done by a thread of its own (``uncut``) while the main thread waits; what a handler raises is raised afterwards.
    * A further signal may come while the caller is about to go on waiting: then the call ends, and its thread may not
      have. Whatever is called next waits for it.
    * At the end of the interpreter the other threads stand still for good, with the calls that they were in. A call
      waits for none of them.

    A forked child must not come here: a thread of its parent that is in a call is not forked with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # ``with`` takes this lock and no signal comes in between, which no lock written in Python can promise.
        self._lock = threading.RLock()
        self._is_busy = False
        self._effect: _Uncut | None = None
        """What must not be cut off and is done, or was done last."""
        self._deferred: Callable[[], None] | None = None

    def run(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns.

        Raises:
            RefusedError: it comes from within another call, or the interpreter ends while a thread is in one.
        """
        self._refuse_waiting_for_ever()
        with self._lock:
            if self._is_busy:
                raise self._refused(_WITHIN)
            return self._run(call)

    def run_or_defer(self, call: Callable[[], None]) -> None:
        """Run a call; one that comes from within another call runs when that has ended, however it ends."""
        if not self._is_helper():
            self._refuse_waiting_for_ever()
            with self._lock:
                if not self._is_busy:
                    self._run(call)
                    return
        self._deferred = call

    def uncut(self, effect: Callable[[], None]) -> None:
        """Do what a call does in such a way that a signal cannot cut it off."""
        if not self._is_helper():
            self._finish_effect()
        if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
            effect()
            return
        self._effect = _Uncut(effect)
        self._effect.run()

    def _finish_effect(self) -> None:
        """Wait for the effect of an earlier call that signals ended before it."""
        if self._effect is not None:
            if sys.is_finalizing() and not self._effect.has_ended:
                raise self._refused(_AT_THE_END)
            self._effect.end()
            self._effect = None

    def _is_helper(self) -> bool:
        """Whether this thread does what must not be cut off."""
        return self._effect is not None and self._effect.thread == threading.get_ident()

    def _run(self, call: Callable[[], _T]) -> _T:
        try:
            self._is_busy = True
            self._finish_effect()
            return call()
        finally:
            try:
                if self._deferred is not None:
                    self._deferred()
            finally:
                self._deferred, self._is_busy = None, False

    def _refuse_waiting_for_ever(self) -> None:
        if self._is_helper():
            raise self._refused(_WITHIN)
        if sys.is_finalizing():
            if not self._lock.acquire(blocking=False):
                raise self._refused(_AT_THE_END)
            self._lock.release()

    def _refused(self, when: str) -> RefusedError:
        return RefusedError(f"{self._name} is called {when}, which would damage it: nothing was done")


class _Uncut:
    """An effect in a thread of its own, for which the main thread waits whatever signals come."""

    def __init__(self, effect: Callable[[], None]) -> None:
        self._effect = effect
        self._done = _thread.allocate_lock()
        self.thread: int | None = None
        """The thread that does it."""
        self.has_ended = False
        self._error: BaseException | None = None
        self._doer: dict[str, str] = {}
        """Who has taken the effect, whoever asked first: the thread, or nobody because the caller gave it up."""

    def run(self) -> None:
        """Have the effect done; raise what a signal handler raised meanwhile, or what the effect raised."""
        interruption: BaseException | None = None
        is_begun = False
        self._done.acquire()
        while not self.has_ended:
            try:
                if not is_begun:
                    is_begun = True
                    _thread.start_new_thread(self._do, ())
                self._done.acquire(timeout=_LOOK_S)
            except BaseException as error:  # noqa: BLE001 - a signal; or no thread could be started
                interruption = error
                if self._is_taken_by("nobody"):
                    break
        raised = interruption or self._error
        if raised is not None:
            raise raised

    def end(self) -> None:
        """Return when the effect has ended; one that no thread has taken is given up."""
        if not self._is_taken_by("nobody"):
            while not self.has_ended:
                self._done.acquire(timeout=_LOOK_S)

    def _do(self) -> None:
        self.thread = threading.get_ident()
        try:
            if self._is_taken_by("thread"):
                self._effect()
        except BaseException as error:  # noqa: BLE001 - raised by ``run``
            self._error = error
        finally:
            self.thread = None
            self.has_ended = True
            self._done.release()

    def _is_taken_by(self, doer: str) -> bool:
        return self._doer.setdefault("is", doer) == doer


_TOPIC_ID, _TOPIC = bytes(16), "library"
_ESCAPE = "\0"
"""Begins an id that is not stored as it is, but as the hexadecimal digits of its bytes."""


def open_library(path: Path, scheme: Scheme, settings: IndexSettings | None = None) -> LogIndex:
    """Open the index in a folder, or make one.

    Raises:
        UserError: another process has it open, it is of another format or scheme, or it is no index of this API.
        CorruptError: it is damaged.
        UnavailableError: the disk is full or failing.
    """
    index = LogIndex.open(path, scheme=scheme, settings=settings)
    try:
        _begin(index, path, scheme)
    except BaseException:
        index.close()
        raise
    return index


def records_of(index: LogIndex, fingerprints: Fingerprints, scope_hashes: U64, ids: Sequence[str]) -> list[LogRecord]:
    """Return the record that appends articles with signatures, no record of no articles; the index is not changed."""
    if not ids:
        return []
    columns = Columns.of(
        checksums=np.zeros(len(ids), np.uint64),
        statuses=fingerprints.statuses,
        scope_hashes=scope_hashes,
        signatures=fingerprints.signatures,
        margins=fingerprints.margins,
        ids=[_stored_id(article_id) for article_id in ids],
        sketches=fingerprints.sketches,
        reasons=[""] * len(ids),
    )
    first = index.partitions().get((_TOPIC_ID, 0), -1) + 1
    return [_next_record(index, make_batch(columns, _TOPIC_ID, _TOPIC, 0, np.arange(first, first + len(ids))))]


def article_ids(index: LogIndex, rows: RowArray) -> list[str]:
    """Return the article id of each row. Batches are read in order of the log, each once, and not held."""
    ids = [""] * len(rows)
    positions = rows["position"].tolist()
    for at in np.argsort(rows["position"]).tolist():
        ids[at] = _read_id(index.id_of(positions[at]))
    return ids


def signatures_of(fingerprints: U64) -> U8:
    """Return signatures that hold a fingerprint and nothing else, for exact search."""
    signatures = np.zeros((len(fingerprints), SIGNATURE_BYTES), np.uint8)
    signatures[:, :8] = fingerprints.astype(">u8").view(np.uint8).reshape(-1, 8)
    return signatures


def _begin(index: LogIndex, path: Path, scheme: Scheme) -> None:
    if index.log_id is None:
        index.begin(f"{LIBRARY_LOG_PREFIX}{uuid.uuid4()}")
    elif not index.log_id.startswith(LIBRARY_LOG_PREFIX):
        raise UserError(f"index {path} belongs to a worker or to `filter`: give stream_dedup.Index a folder of its own")
    if index.rules is None:
        rules = Rules(scheme, search=DIRECTED, distance=None, probes=1, limit=0, short_limit=0)
        index.apply([_next_record(index, rules)])


def _next_record(index: LogIndex, payload: Payload) -> LogRecord:
    return LogRecord(index.next_offset, 0, payload, encode(payload))


def _stored_id(article_id: str) -> str:
    """Return an id as the log holds it, in UTF-8; one given to the API may hold half a surrogate pair."""
    raw = article_id.encode("utf-8", "surrogatepass")
    escaped = article_id.startswith(_ESCAPE) or raw != article_id.encode("utf-8", "replace")
    return _ESCAPE + raw.hex() if escaped else article_id


def _read_id(stored: str) -> str:
    """Return the id that was given to the API."""
    if stored.startswith(_ESCAPE):
        return bytes.fromhex(stored[len(_ESCAPE) :]).decode("utf-8", "surrogatepass")
    return stored
