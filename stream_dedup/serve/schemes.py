"""Fingerprints texts under the scheme of the log.

A scheme names what entries depend on, by hashes and versions; the settings cannot be read back from it. So the
configuration's settings are tried, then the same with each other profile. If none has the log's scheme, texts cannot be
fingerprinted here, and the error says in what the configuration differs.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.sections import MAX_RECORD_BYTES
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules_text import scheme_mismatch
from stream_dedup.core.scheme import scheme_of
from stream_dedup.pool import FingerprintPool
from stream_dedup.serve.problems import ProblemError, not_ready
from stream_dedup.worker.fingerprinting import BatchFingerprinter

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.core.logged_scheme import Scheme
    from stream_dedup.core.scheme import FingerprintSettings
    from stream_dedup.errors import StreamDedupError


def settings_for(config: Config, scheme: Scheme) -> FingerprintSettings | None:
    """Return the settings that make entries of this scheme: the configuration's, or with another profile; or None."""
    for profile in (config.match.profile, *PROFILES):
        match = config.match.model_copy(update={"profile": profile})
        settings = fingerprint_settings_of(config.model_copy(update={"match": match}))
        if scheme_of(settings) == scheme:
            return settings
    return None


class StartedFingerprinter(NamedTuple):
    """What fingerprints records, and the scheme of its entries."""

    scheme: Scheme
    records: BatchFingerprinter


class SchemeFingerprinter:
    """The fingerprinting processes for the scheme of the log. Any thread."""

    def __init__(self, config: Config) -> None:
        """Start nothing yet."""
        self._config = config
        self._lock = threading.Lock()
        self._scheme: Scheme | None = None
        self._pool: FingerprintPool | None = None
        self._started: StartedFingerprinter | None = None
        self.settings: FingerprintSettings | None = None
        """Those of the scheme, once it is known."""

    def use(self, scheme: Scheme) -> None:
        """Load what the scheme of the log needs; return when the processes are ready.

        Raises:
            UserError: a package or its data are missing.
            UnavailableError: no process could be started.
        """
        with self._lock:
            if scheme == self._scheme:
                return
            self._end()
            self._scheme = None  # while what it needs is not there
            self.settings = settings_for(self._config, scheme)
            if self.settings is not None:
                self._started = self._start(scheme, self.settings)
            self._scheme = scheme

    def _start(self, scheme: Scheme, settings: FingerprintSettings) -> StartedFingerprinter:
        config, processes = self._config, self._config.serve.processes
        self._pool = FingerprintPool(processes, settings, input_format_of(config), config.worker.article_limit_s)
        self._pool.warm()
        fingerprinter = BatchFingerprinter(self._pool, processes, MAX_RECORD_BYTES, settings.widths)
        return StartedFingerprinter(scheme, fingerprinter)

    @property
    def failure(self) -> StreamDedupError | None:
        """The error after which no text can be fingerprinted any more; None while the processes work."""
        pool = self._pool
        return None if pool is None else pool.failure

    def get(self) -> StartedFingerprinter:
        """Return what fingerprints records, and the scheme of its entries.

        Raises:
            ProblemError: the configuration has no settings for the log's scheme, or the log was not read yet.
        """
        started = self._started
        if started is None:
            raise self._problem()
        return started

    def needed_settings(self) -> FingerprintSettings:
        """Return the settings of the log's scheme; raises as ``get``."""
        settings = self.settings
        if settings is None:
            raise self._problem()
        return settings

    def _problem(self) -> ProblemError:
        scheme = self._scheme
        if scheme is None:
            return not_ready("the log was not read yet")
        configured = scheme_of(fingerprint_settings_of(self._config))
        detail = scheme_mismatch(
            scheme, configured, "the log", "configure the log's scheme, and start the service again"
        )
        return ProblemError(HTTPStatus.CONFLICT, "other-scheme", detail)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        pool, self._pool, self._started = self._pool, None, None
        if pool is not None:
            pool.close()
