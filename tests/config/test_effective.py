"""The values in force: rules, scheme and settings that follow from a configuration and its profile."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stream_dedup.config.effective import (
    clusters_keep_ms,
    fingerprint_settings_of,
    index_settings_of,
    input_format_of,
    rules_of,
    with_input_topics,
)
from stream_dedup.config.keys import MAX_TOPIC_CHARACTERS, parse_duration_ms, topic_or_pattern
from stream_dedup.config.load import load_config
from stream_dedup.core.decode import InputFormat
from stream_dedup.core.rules import Rules
from stream_dedup.index import IndexSettings
from tests.profiles import profile_with

LONGEST_MATCH_S = 7.0
"""Seconds of processor time for a name; less than one is usual."""


def rules_with(**match: object) -> Rules:
    return rules_of(load_config(None, {"match": match}, {}))


def test_rules_of_the_profiles() -> None:
    """Article (the default) and comment search directed, simhash exact within 3 bits; all for ever."""
    assert rules_with() == rules_with(profile="article")
    for profile, probes in (("article", 768), ("comment", 384)):
        rules = rules_with(profile=profile)
        assert (rules.search, rules.probes, rules.distance, rules.scheme.name) == ("directed", probes, None, profile)
    exact = rules_with(profile="simhash")
    assert (exact.search, exact.distance, exact.limit, exact.scheme.name) == ("exact", 3, None, "simhash")
    assert (exact.window_ms, exact.featureless, exact.recrawl, exact.observe) == (None, "unique", "duplicate", False)


def test_given_keys_are_rules() -> None:
    """Beside those of the profile."""
    rules = rules_with(copies=3, window="2h", recrawl="update", observe=True, featureless="rejected")
    assert (rules.window_ms, rules.recrawl, rules.observe, rules.featureless) == (7_200_000, "update", True, "rejected")
    assert (rules.copies, rules.limit) == (3, rules_with().limit)


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("match", {"copies": 4, "window": "1h", "recrawl": "update", "observe": True}),
        ("worker", {"threads": 3}),
    ],
)
def test_what_only_the_verdict_depends_on_is_not_in_the_scheme(section: str, keys: dict[str, object]) -> None:
    """Rules can change within one log."""
    assert rules_of(load_config(None, {section: keys}, {})).scheme == rules_with().scheme


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("input", {"scope_field": "site"}),
        ("input", {"deletes": "withdraw"}),
        ("input", {"fields": {"title": 3, "text": 1}}),
        ("input", {"html_fields": ["text"]}),
        ("input", {"markup": "html"}),
    ],
)
def test_what_an_entry_depends_on_is_in_the_scheme(section: str, keys: dict[str, object]) -> None:
    """Another one is another log."""
    assert rules_of(load_config(None, {section: keys}, {})).scheme != rules_with().scheme


def test_what_the_core_is_given_is_what_the_sections_say() -> None:
    """Fields, HTML and scope reach both the reading of records and the making of entries."""
    given = {"id_field": "url", "fields": {"title": 3, "body": 1}, "html_fields": ["body"], "scope_field": "site"}
    profile = profile_with(features={"top_k": 50})
    config = load_config(None, {"input": given, "match": {"profile": profile}}, {})
    fmt, settings = input_format_of(config), fingerprint_settings_of(config)
    assert (fmt.id_field, fmt.text_fields, fmt.scope_field) == ("url", ("title", "body"), "site")
    assert (settings.field_weights, settings.html, settings.scope_field) == ((3, 1), (False, True), "site")
    assert settings.long.features.top_k == 50


def test_deletes_are_those_of_source_topics() -> None:
    """What a command or a request is given is a text; the scheme is that of the log, and the key that of any record."""
    given = {
        "deletes": "withdraw",
        "key_field": "id",
        "delete_field": "payload.op",
        "delete_value": "REMOVE",
        "delete_id_field": "payload.before.id",
    }
    config = load_config(None, {"input": given}, {})
    taken = InputFormat(
        key_field="id",
        deletes=True,
        delete_field="payload.op",
        delete_value="REMOVE",
        delete_id_field="payload.before.id",
    )
    assert input_format_of(config, deletes=True) == taken
    assert input_format_of(config) == replace(taken, deletes=False)
    assert fingerprint_settings_of(config).deletes
    assert input_format_of(load_config(None, {}, {}), deletes=True) == InputFormat()


def test_fields_may_be_paths_from_every_source(tmp_path: Path) -> None:
    """A file names them in quotes; the environment and flags as they are."""
    path = tmp_path / "c.toml"
    path.write_text("[input]\nfields = { '_source.title' = 3, 'talk[].says' = 1 }\nhtml_fields = ['talk[].says']\n")
    config = load_config(path, {"input": {"id_field": r"a\.b"}}, {"STREAM_DEDUP_INPUT__SCOPE_FIELD": "meta[0].site"})
    fmt, settings = input_format_of(config), fingerprint_settings_of(config)
    assert (fmt.id_field, fmt.scope_field) == (r"a\.b", "meta[0].site")
    assert (fmt.text_fields, settings.html) == (("_source.title", "talk[].says"), (False, True))
    config = load_config(None, {}, {"STREAM_DEDUP_INPUT__FIELDS": "_source.title=3, talk[].says=1"})
    assert input_format_of(config).text_fields == ("_source.title", "talk[].says")


def test_weights_of_fields_come_from_the_environment_too() -> None:
    """As names and weights with commas between them."""
    config = load_config(None, {}, {"STREAM_DEDUP_INPUT__FIELDS": "title=3, text=1"})
    assert config.input.fields == {"title": 3, "text": 1}


@pytest.mark.parametrize(
    ("keep", "window", "days"),
    [(None, None, None), (None, "1h", 8), (None, "5d", 10), ("9d", None, 9), ("9d", "5d", 9)],
)
def test_how_long_an_article_stays_in_its_cluster(keep: str | None, window: str | None, days: int | None) -> None:
    """As it is set; else twice the window, at least 8 days; without a window for ever."""
    config = load_config(None, {"clusters": {"keep": keep}, "match": {"window": window}}, {})
    assert clusters_keep_ms(config) == (None if days is None else days * 24 * 3_600_000)


@pytest.mark.parametrize("window", ["104249991d", "999999999h"])
def test_a_window_that_is_taken_can_be_kept(window: str) -> None:
    """What `config check` takes, the rules of a log take."""
    rules = rules_of(load_config(None, {"match": {"window": window}}, {}))
    assert Rules.from_json(rules.to_json()).window_ms == parse_duration_ms(window)


def test_defaults_are_those_of_the_index_and_of_the_records() -> None:
    """A configuration without keys gives the settings that the index and the decoder have by default."""
    config = load_config(None, {}, {})
    assert index_settings_of(config) == IndexSettings()
    assert input_format_of(config) == InputFormat()


EXISTING = (
    *("news.daily", "news.weekly", "News", "articles", "articles-unique", "articles-duplicate", "articles-rejected"),
    *(
        "articles-clusters",
        "articles.fingerprints",
        "articles2.fingerprints",
        "__consumer_offsets",
        "__transaction_state",
    ),
)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("^.*.*.*.*.*[xy]", "5 repeats"),
        ("^" + "a?" * 30 + "b", "30 repeats"),
        (r"^(\)*)*[xy]", "a group is repeated"),
        ("^(a+)+$", "a group is repeated"),
        ("^([)a+]){2,}$", "a group is repeated"),
        ("^(a+)*?$", "a group is repeated"),
        ("^(?x:(a+) *)$", "groups that begin with"),
        ("^(a)(?#)+$", "groups that begin with"),
        ("^(?P<n>a)", "groups that begin with"),
    ],
)
def test_a_pattern_that_could_match_for_hours_is_refused(pattern: str, why: str) -> None:
    """Before any name is matched, and the message says what is too much."""
    with pytest.raises(ValueError, match=why):
        topic_or_pattern(pattern)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "letter"),
    [
        ("^.*.*.*.*[xy]", "z"),
        ("^.*?.*?.*?.*?[xy]", "z"),
        ("^(?:a|[(+]|aa)?.{0,249}.*+(?=.*)[xy]", "a"),
        (r"^a\*\+\?[*+?)(]{2}[]*+?][^]*+?]{}{$", "+"),
        ("^(?!test-)(?:news|blogs)([.]v2)?$", "a"),
    ],
)
def test_every_other_pattern_matches_a_name_within_a_second(pattern: str, letter: str) -> None:
    """One of the longest names, of letters with which it tries most."""
    assert topic_or_pattern(pattern) == pattern
    began = time.process_time()
    assert re.match(pattern, letter * MAX_TOPIC_CHARACTERS) is None
    assert time.process_time() - began < LONGEST_MATCH_S


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["articles"], ["articles"]),
        (["^news[.]"], ["news.daily", "news.weekly"]),
        (["^news[.]daily$"], ["news.daily"]),
        (["^[Nn]ews"], ["News", "news.daily", "news.weekly"]),
        (["^.*weekly"], ["news.weekly"]),
        (["^weekly"], []),
        (["^articles"], ["articles"]),
        (["^"], ["News", "articles", "news.daily", "news.weekly"]),
        (["^__", "^.*[.]fingerprints"], []),
        (["missing", "^news", "^.*daily"], ["missing", "news.daily", "news.weekly"]),
        (["news.weekly", "^news"], ["news.weekly", "news.daily"]),
        (["articles2.fingerprints", "^art"], ["articles2.fingerprints", "articles"]),
    ],
)
def test_the_input_topics_are_those_that_match(given: list[str], found: list[str]) -> None:
    """Named ones first, each once. A pattern matches no topic of the program, whatever it is called, nor of Kafka."""
    topics = {
        "input": given,
        "unique": "articles-unique",
        "duplicate": "articles-duplicate",
        "rejected": "articles-rejected",
        "clusters": "articles-clusters",
    }
    config = load_config(None, {"kafka": {"group": "articles"}, "topics": topics}, {})
    asked = []

    def known() -> tuple[str, ...]:
        asked.append(EXISTING)
        return EXISTING

    made = with_input_topics(config, known)
    assert made.topics.input == found
    assert made.topics.model_copy(update={"input": given}) == config.topics
    assert bool(asked) == bool(config.topics.patterns)
