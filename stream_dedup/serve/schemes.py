"""Fingerprints texts under the scheme of the log.

A scheme names what entries depend on, by hashes and versions; the settings cannot be read back from it. So the
configuration's settings are tried, then the same with each built-in profile. If none has the log's scheme, texts cannot
be fingerprinted here, and the error says in what the configuration differs.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import NamedTuple

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker, Fingerprinter
from stream_dedup.core.logged_scheme import Scheme, scheme_mismatch
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings, scheme_of
from stream_dedup.serve.problems import ProblemError, not_ready
from stream_dedup.threads import FingerprintThreads, thread_count


def settings_for(config: Config, scheme: Scheme) -> FingerprintSettings | None:
    """Return the settings that make entries of this scheme: the configuration's, or a built-in profile's; or None."""
    for profile in (config.match.profile, *PROFILES.values()):
        match = config.match.model_copy(update={"profile": profile})
        settings = fingerprint_settings_of(config.model_copy(update={"match": match}))
        if scheme_of(settings) == scheme:
            return settings
    return None


class StartedFingerprinter(NamedTuple):
    """What fingerprints under a scheme."""

    scheme: Scheme
    texts: Fingerprinter
    records: FingerprintThreads[RawRecord]


class SchemeFingerprinter:
    """The fingerprinting threads for the scheme of the log. Any thread."""

    def __init__(self, config: Config) -> None:
        """Start nothing yet."""
        self._config = config
        self._lock = threading.Lock()
        self._scheme: Scheme | None = None
        self._started: StartedFingerprinter | None = None

    def use(self, scheme: Scheme) -> None:
        """Load what the scheme of the log needs.

        Raises:
            UserError: a file of words cannot be read.
        """
        with self._lock:
            if scheme == self._scheme:
                return
            self._end()
            self._scheme = None  # while what it needs is not there
            settings = settings_for(self._config, scheme)
            if settings is not None:
                self._started = self._start(scheme, settings)
            self._scheme = scheme

    def _start(self, scheme: Scheme, settings: FingerprintSettings) -> StartedFingerprinter:
        maker = EntryMaker(settings, input_format_of(self._config))
        maker.fingerprinter.warm()
        threads = FingerprintThreads(thread_count(self._config.serve.threads), maker)
        return StartedFingerprinter(scheme, maker.fingerprinter, threads)

    @property
    def settings(self) -> FingerprintSettings | None:
        """The settings of the log's scheme; None while it is not known, or the configuration has none."""
        started = self._started
        return None if started is None else started.texts.settings

    def get(self) -> StartedFingerprinter:
        """Return what fingerprints under the log's scheme.

        Raises:
            ProblemError: the configuration has no settings for the log's scheme, or the log was not read yet.
        """
        started = self._started
        if started is None:
            raise self._problem()
        return started

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
        """End the threads."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        started, self._started = self._started, None
        if started is not None:
            started.records.close()
