"""Metrics and their server, over real HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, context_managers
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Status, Verdict
from stream_dedup.core.reasons import CODES
from stream_dedup.errors import UserError
from stream_dedup.metrics.declaration import BatchHistogram
from stream_dedup.metrics.metrics import DELAY_BUCKETS, STAGES, Metrics
from stream_dedup.metrics.server import MetricsServer
from tests.deploy.metric_names import PROCESS_METRICS


class Health:
    """What the two pages say."""

    def __init__(self) -> None:
        self.well = (True, "well")
        self.up = (False, "reading the log")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def server(metrics: Metrics, health: Health) -> Iterator[MetricsServer]:
    with MetricsServer("127.0.0.1:0", metrics.registry, lambda: health.well, lambda: health.up) as served:
        yield served


def get(server: MetricsServer, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{server.address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def names_in(page: str) -> set[str]:
    return {family.name for family in text_string_to_metric_families(page)}


def test_every_declared_metric_is_served(server: MetricsServer) -> None:
    """/metrics has each declaration under its name."""
    status, page = get(server, "/metrics")
    assert status == 200
    assert {declared.full_name.removesuffix("_total") for declared in Metrics.declarations()} <= names_in(page)


def test_what_was_counted_is_served(server: MetricsServer, metrics: Metrics) -> None:
    """A count shows on the page."""
    metrics.articles.labels("duplicate").inc(3)
    assert 'stream_dedup_articles_total{verdict="duplicate"} 3.0' in get(server, "/metrics")[1]


def test_health_pages_ask_each_time(server: MetricsServer, health: Health) -> None:
    """200 or 503 with the reason, as it is now."""
    assert get(server, "/healthz") == (200, "well\n")
    assert get(server, "/readyz") == (503, "reading the log\n")
    health.up = (True, "ready")
    assert get(server, "/readyz") == (200, "ready\n")


def test_other_pages_are_not_there(server: MetricsServer) -> None:
    """An unknown page answers 404 and names those that are."""
    assert get(server, "/")[0] == 404


def test_the_time_of_fingerprinting_is_added_up(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of work that fails."""
    times = iter([10.0, 12.5, 20.0, 20.25])
    monkeypatch.setattr(context_managers, "default_timer", lambda: next(times))
    with metrics.fingerprinting():
        pass
    with pytest.raises(MemoryError), metrics.fingerprinting():
        raise MemoryError
    assert metrics.registry.get_sample_value("stream_dedup_fingerprint_busy_seconds_total") == 2.75


def test_a_taken_port_is_told(server: MetricsServer, metrics: Metrics) -> None:
    """A second server on the port is an error that names address and flag."""
    with pytest.raises(
        UserError, match=rf"{server.address}: another program listens on it; set another address with --metrics"
    ):
        MetricsServer(server.address, metrics.registry, lambda: (True, ""), lambda: (True, ""))


@pytest.mark.parametrize(
    ("address", "asked"), [("[::1]:0", "[::1]"), (":0", "127.0.0.1"), ("localhost:0", "localhost")]
)
def test_any_address_can_be_bound(metrics: Metrics, address: str, asked: str) -> None:
    """IPv6, every address, and names."""
    with (
        MetricsServer(address, metrics.registry, lambda: (True, "well"), lambda: (True, "")) as served,
        urlopen(f"http://{asked}:{served.port}/healthz", timeout=10) as answer,
    ):
        assert answer.read() == b"well\n"


def test_a_closed_server_gives_its_port_back(metrics: Metrics) -> None:
    """After close the same port can be bound again."""
    first = MetricsServer("127.0.0.1:0", metrics.registry, lambda: (True, ""), lambda: (True, ""))
    first.close()
    MetricsServer(first.address, metrics.registry, lambda: (True, ""), lambda: (True, "")).close()


def test_two_registries_do_not_meet() -> None:
    """Nothing is global: two workers in one process count apart."""
    one, other = Metrics(CollectorRegistry()), Metrics(CollectorRegistry())
    one.rebalances.inc()
    assert other.registry.get_sample_value("stream_dedup_rebalances_total") == 0


def test_rejections_are_counted_by_code(metrics: Metrics) -> None:
    """Texts with other numbers and other fields are one code; every code has a series from the start."""
    texts = ["invalid UTF-8 at byte 27", "invalid UTF-8 at byte 9", "text field body is missing", "of tomorrow"]
    metrics.count_verdicts([Judgement(Verdict.REJECTED, reason=text) for text in texts])
    samples = {sample.labels["reason"]: sample.value for sample in _samples(metrics, "stream_dedup_rejected_total")}
    assert samples == dict.fromkeys(CODES, 0.0) | {"invalid_utf8": 2.0, "missing_field": 1.0, "other": 1.0}


def test_a_batch_counts_what_its_articles_count(metrics: Metrics) -> None:
    """Verdicts, updates, and distance and similarity of each match: of duplicates and of updates."""
    judged = [
        Judgement(Verdict.UNIQUE),
        Judgement(Verdict.UNIQUE),
        Judgement(Verdict.UNIQUE, match=match(3, 0.99)),
        Judgement(Verdict.DUPLICATE, match=match(45, 0.9)),
        Judgement(Verdict.REJECTED, reason="invalid JSON"),
        Judgement(Verdict.DELETE),
    ]
    metrics.count_verdicts(judged)
    value = metrics.registry.get_sample_value
    by_verdict = {name: value("stream_dedup_articles_total", {"verdict": name}) for name in Verdict}
    assert by_verdict == {"unique": 3, "duplicate": 1, "rejected": 1, "delete": None}
    assert value("stream_dedup_updates_total") == 1
    assert value("stream_dedup_match_distance_count") == 2
    assert value("stream_dedup_match_distance_sum") == 48
    assert value("stream_dedup_match_distance_bucket", {"le": "3.0"}) == 1
    assert value("stream_dedup_match_similarity_bucket", {"le": "0.9"}) == 1


def match(distance: int, similarity: float) -> Match:
    here = Coordinates(bytes(16), 0, SourceOffset(0))
    return Match(LogPosition(0), "a", "articles", here, 0, distance, similarity)


def test_delays_are_counted_by_article(metrics: Metrics) -> None:
    """A batch of three is three; a source timestamp in the future is a delay of 0."""
    metrics.count_delays(np.array([0.2, 7.0, -3.0]))
    value = metrics.registry.get_sample_value
    assert value("stream_dedup_end_to_end_seconds_count") == 3
    assert value("stream_dedup_end_to_end_seconds_sum") == pytest.approx(7.2)
    assert value("stream_dedup_end_to_end_seconds_bucket", {"le": "0.05"}) == 1


@given(st.lists(st.lists(st.floats(-10, 200) | st.sampled_from(DELAY_BUCKETS))))
def test_a_batch_histogram_equals_the_one_of_the_client(batches: list[list[float]]) -> None:
    """Buckets, sum and count, value by value; a value that is a bound belongs to its bucket."""
    registry = CollectorRegistry()
    ours = BatchHistogram("ours", "Ours.", registry=registry, buckets=DELAY_BUCKETS)
    theirs = Histogram("theirs", "Theirs.", registry=registry, buckets=DELAY_BUCKETS)
    for batch in batches:
        ours.observe(batch)
        for value in batch:
            theirs.observe(value)
    pages = [
        {
            (one.name.partition("_")[2], *one.labels.values()): pytest.approx(one.value)
            for family in histogram.collect()
            for one in family.samples
            if not one.name.endswith("_created")
        }
        for histogram in (ours, theirs)
    ]
    assert pages[0] == pages[1]


def test_the_process_and_its_disk_are_shown(metrics: Metrics, tmp_path: Path) -> None:
    """The standard metrics of a process, all of them; a folder that is gone is no number, and no error."""
    metrics.watch_process()
    metrics.watch_disk(tmp_path / "index")
    value = metrics.registry.get_sample_value
    assert all(value(name) is not None for name in PROCESS_METRICS)
    assert value("stream_dedup_index_disk_free_bytes") == pytest.approx(math.nan, nan_ok=True)
    (tmp_path / "index").mkdir()
    assert 0 < (value("stream_dedup_index_disk_free_bytes") or 0) < (value("stream_dedup_index_disk_bytes") or 0)


def _samples(metrics: Metrics, name: str) -> list[Sample]:
    return [s for family in metrics.registry.collect() for s in family.samples if s.name == name]


def test_a_stage_is_measured_though_it_fails(metrics: Metrics) -> None:
    """The time of a step that raised counts too."""
    with pytest.raises(ValueError, match="no"), metrics.stage("judge"):
        raise ValueError("no")
    assert metrics.registry.get_sample_value("stream_dedup_stage_seconds_count", {"stage": "judge"}) == 1


def test_candidates_are_counted_per_lookup(metrics: Metrics) -> None:
    """A batch's mean stands in the histogram; a batch without look-ups leaves none."""
    metrics.count_lookups(10, 320, 40)
    metrics.count_lookups(0, 0, 0)
    assert metrics.registry.get_sample_value("stream_dedup_lookups_total") == 10
    assert metrics.registry.get_sample_value("stream_dedup_lists_total") == 320
    assert metrics.registry.get_sample_value("stream_dedup_candidates_per_lookup_sum") == 4


def test_texts_are_counted_by_kind(metrics: Metrics) -> None:
    """Each kind that a log entry can say, whether it came or not."""
    metrics.count_texts(np.array([Status.LONG, Status.SHORT, Status.SHORT, Status.REJECTED, Status.DELETE], np.uint8))
    samples = {sample.labels["kind"]: sample.value for sample in _samples(metrics, "stream_dedup_texts_total")}
    assert samples == {"long": 1, "featureless": 0, "rejected": 1, "short": 2, "exact": 0, "delete": 1}


def test_identity_has_one_value(metrics: Metrics) -> None:
    """Only the last version and scheme are served."""
    metrics.identify("1", "a/1-x")
    metrics.identify("2", "a/1-y")
    samples = _samples(metrics, "stream_dedup_build_info")
    assert json.loads(json.dumps([s.labels for s in samples])) == [{"version": "2", "scheme": "a/1-y"}]


def test_declarations_say_what_to_do() -> None:
    """Each has unit, meaning and what to do; histograms have rising buckets; names are unlike."""
    assert len({declared.name for declared in Metrics.declarations()}) == len(Metrics.declarations())
    for declared in Metrics.declarations():
        assert declared.unit
        assert declared.meaning
        assert declared.when_it_moves.endswith(".")
        assert list(declared.buckets) == sorted(set(declared.buckets))
        assert bool(declared.buckets) == (declared.kind == "histogram")
    assert len(set(STAGES)) == len(STAGES)
