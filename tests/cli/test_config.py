"""The configuration: three sources, every problem at once, no secret told."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from stream_dedup.cli import run
from stream_dedup.config.checks import ConfigError, parse_duration_ms
from stream_dedup.config.effective import (
    NORMALISATION,
    PROFILE_FEATURES,
    fingerprint_settings_of,
    input_format_of,
    rules_of,
)
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules import Rules
from stream_dedup.core.scheme import Features, Normalisation

ARTICLE = PROFILES["article"]
SECRET = "hunter2-do-not-print"  # noqa: S105 - what the tests look for


def write(folder: Path, text: str) -> Path:
    path = folder / "worker.toml"
    path.write_text(text, "utf-8")
    return path


def problems_of(folder: Path, text: str, **more: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(folder, text), more.get("flags", {}), more.get("environment", {}))
    return caught.value.problems


def test_nothing_given_is_a_configuration() -> None:
    """Without file, environment and flags the defaults stand."""
    config = load_config(None, {}, {})
    assert config == Config()
    assert (config.topics.input, config.topics.unique, config.kafka.group) == (["articles"], "unique", "stream-dedup")
    assert config.log_topic == "stream-dedup.fingerprints"


def test_flags_stand_over_environment_over_file(tmp_path: Path) -> None:
    """Of three sources that give one key, the flag's value holds, then the environment's."""
    path = write(tmp_path, '[kafka]\nbrokers = "file:1"\ngroup = "file"\n[match]\ndistance = 1\n')
    environment = {"STREAM_DEDUP_KAFKA__GROUP": "env", "STREAM_DEDUP_MATCH__DISTANCE": "2"}
    config = load_config(path, {"match": {"distance": "5", "window": None, "profile": "simhash"}}, environment)
    assert (config.kafka.brokers, config.kafka.group, config.match.distance) == ("file:1", "env", 5)


def test_environment_lists_have_commas() -> None:
    """Several topics in one variable are parted by commas."""
    config = load_config(None, {}, {"STREAM_DEDUP_TOPICS__INPUT": "a, b"})
    assert config.topics.input == ["a", "b"]


def test_other_variables_of_the_project_are_no_keys() -> None:
    """Variables without a section (for tests, for real text) are left alone; an empty one was not given."""
    environment = {"STREAM_DEDUP_DATA": "x", "STREAM_DEDUP_TEST_BROKERS": "y", "STREAM_DEDUP_KAFKA__GROUP": ""}
    assert load_config(None, {}, environment) == Config()


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """Wrong values, unknown keys, and what is wrong between keys, from all sources, in one error."""
    text = (
        'nonsense = 1\n[kafka]\nbrokers = "x"\n[match]\ndistance = 12\nwindow = "24"\n[topics]\nunique = "articles"\n'
    )
    told = problems_of(tmp_path, text, environment={"STREAM_DEDUP_WORKER__BATCH_RECORDS": "many"})
    named = [line.split(" ")[0].strip(",:") for line in told]
    assert sorted(named) == [
        "kafka.brokers",
        "match.distance",
        "match.window",
        "nonsense",
        "topics",
        "worker.batch_records",
    ]


def test_a_problem_names_key_value_source_reason_and_remedy(tmp_path: Path) -> None:
    """One line says what is wrong and what to give instead."""
    told = problems_of(tmp_path, "[match]\ndistance = 12\n")
    assert told == [
        f"match.distance = 12 (file {tmp_path / 'worker.toml'}): must be less than or equal to 11; give 0 to 11"
    ]


@pytest.mark.parametrize(("key", "meant"), [("brokrs", "brokers"), ("session_timeout", "session_timeout_s")])
def test_an_unknown_key_is_a_problem_with_a_guess(tmp_path: Path, key: str, meant: str) -> None:
    """A misspelt key is not passed over; the nearest known one is named."""
    assert f"did you mean '{meant}'?" in problems_of(tmp_path, f"[kafka]\n{key} = 1\n")[0]


def test_an_unknown_section_is_a_problem(tmp_path: Path) -> None:
    """So is a section that nobody knows, in a file and in a variable."""
    told = problems_of(tmp_path, "[metrcs]\nx = 1\n", environment={"STREAM_DEDUP_KAFAK__GROUP": "x"})
    assert [line.partition(" ")[0] for line in told] == ["metrcs", "kafak"]


@pytest.mark.parametrize(
    "text",
    [
        f'[kafka]\nsasl_password = ["{SECRET}"]\n',
        f'[kafka]\nsasl_pasword = "{SECRET}"\n',
        f'[kafak]\nsasl_password = "{SECRET}"\n',
        f'[kafka]\nsasl_password = "{SECRET}"\nsasl_password_file = "/nope"\nbrokers = "x"\n',
        f'[kafka]\nssl_password = "{SECRET}"\n',
        f'sasl_password = "{SECRET}"\n',
    ],
)
def test_a_secret_is_in_no_problem(tmp_path: Path, text: str) -> None:
    """Wrong or misspelt, a secret's value is not in the message."""
    assert SECRET not in "\n".join(problems_of(tmp_path, text))


def test_config_show_masks_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config show` says that a secret is there, not which; nor does the value's own text."""
    path = write(
        tmp_path,
        '[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "me"\n'
        f'sasl_password = "{SECRET}"\n',
    )
    assert run(["config", "show", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert 'sasl_password = "********"' in shown
    assert SECRET not in shown + repr(load_config(path, {}, {}))


def test_config_show_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `config show` writes is a configuration file of the same configuration."""
    fields = write(tmp_path, '[input]\nfields = { title = 3, "the text" = 1 }\n')
    flags = ["--window", "24h", "--input", "a", "--input", "b", "--observe"]
    assert run(["config", "show", "--config", str(fields), *flags]) == 0
    shown = capsys.readouterr().out
    assert tomllib.loads(shown)["match"]["window"] == "24h"
    given = {"match": {"window": "24h", "observe": True}, "topics": {"input": ["a", "b"]}}
    again = load_config(None, {**given, "input": {"fields": {"title": 3, "the text": 1}}}, {})
    assert load_config(write(tmp_path, shown), {}, {}) == again


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        (
            [],
            [
                f"# limit = {ARTICLE.limit} (the profile's)",
                "# unspace = false, of short text true (the profile's)",
                "# distance =",
            ],
        ),
        (["--limit", "44"], ["limit = 44", "# probes = 64 (the profile's)"]),
        (
            ["--profile", "comment"],
            ["# unspace = true (the profile's)", "# article_size = every text is short (the profile's)", "# kind ="],
        ),
        (["--profile", "simhash"], ["# distance = 3 (the profile's)", "# limit =", "# search = exact (the profile's)"]),
    ],
)
def test_config_show_tells_what_the_profile_makes_of_it(
    flags: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in force stands beside each key that the profile decides, and given keys stand over it."""
    assert run(["config", "show", *flags]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


def test_config_check_tells_all_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` names every wrong flag and exits with 2."""
    assert run(["config", "check", "--distance", "15", "--metrics", "x"]) == 2
    told = capsys.readouterr().err
    assert "match.distance = '15'" in told
    assert "metrics.address = 'x'" in told


def test_config_check_of_a_right_one_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` of what can be used names the log topic."""
    assert run(["config", "check", "--group", "crawl"]) == 0
    assert "crawl.fingerprints" in capsys.readouterr().out


def test_a_missing_file_does_not_hide_other_problems(tmp_path: Path) -> None:
    """With a file that cannot be read the flags' problems are told too."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "no.toml", {"match": {"distance": "x"}}, {})
    assert len(caught.value.problems) == 2


def test_a_file_that_is_no_toml_names_the_line(tmp_path: Path) -> None:
    """A syntax error is told with its line."""
    assert "line 2" in problems_of(tmp_path, "[kafka]\nbrokers = \n")[0]


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("15m", 900_000), ("24h", 86_400_000), ("7d", 604_800_000), ("1 d", 86_400_000)]
)
def test_durations(text: str, ms: int) -> None:
    """A duration is a number with s, m, h or d."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "24", "0s", "-1h", "1w", "1.5h", "h"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is none, and neither is nothing at all."""
    with pytest.raises(ValueError, match="no duration"):
        parse_duration_ms(text)


def test_secrets_come_from_files(tmp_path: Path) -> None:
    """A password's file holds it, its line end aside."""
    secret = tmp_path / "password"
    secret.write_text(f"{SECRET}\n", "utf-8")
    kafka = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "me",
        "sasl_password_file": str(secret),
    }
    config = load_config(None, {"kafka": kafka}, {})
    assert config.kafka.sasl_secret() == SECRET
    assert config.kafka.ssl_secret() is None


def test_security_settings_that_would_not_be_used_are_refused(tmp_path: Path) -> None:
    """TLS and SASL keys without their protocol would look safer than they are."""
    told = problems_of(tmp_path, '[kafka]\nsasl_username = "me"\nssl_cafile = "/nope"\n')
    assert [line for line in told if "PLAINTEXT does not use it" in line] == told[:2]


def test_sasl_needs_its_keys(tmp_path: Path) -> None:
    """A SASL protocol without mechanism, name and password names all three."""
    told = problems_of(tmp_path, '[kafka]\nsecurity_protocol = "SASL_SSL"\n')
    assert [line.partition(":")[0] for line in told] == [
        "kafka.sasl_mechanism",
        "kafka.sasl_username",
        "kafka.sasl_password",
    ]


@pytest.mark.parametrize("role", ["unique", "duplicate", "rejected"])
def test_a_topic_has_one_role(tmp_path: Path, role: str) -> None:
    """An output that is an input would feed itself; an output that is the log would break it."""
    for name in ("articles", "stream-dedup.fingerprints"):
        assert repr(name) in problems_of(tmp_path, f'[topics]\n{role} = "{name}"\n')[0]


def rules_with(**match: object) -> Rules:
    return rules_of(load_config(None, {"match": match}, {}))


def test_rules_of_the_profiles() -> None:
    """Article (the default) and comment search directed, simhash exact within 3 bits; all for ever."""
    assert rules_with() == rules_with(profile="article")
    for profile, probes in (("article", 64), ("comment", 128)):
        rules = rules_with(profile=profile)
        assert (rules.search, rules.probes, rules.distance, rules.scheme.name) == ("directed", probes, None, profile)
    exact = rules_with(profile="simhash")
    assert (exact.search, exact.distance, exact.limit, exact.scheme.name) == ("exact", 3, None, "simhash")
    assert (exact.window_ms, exact.featureless, exact.recrawl, exact.observe) == (None, "unique", "duplicate", False)


def test_where_every_text_is_short_the_limit_is_theirs() -> None:
    """In profile comment `limit` decides; in article short texts have their own."""
    assert rules_with(profile="comment", limit=40).short_limit == 40
    assert rules_with(profile="comment", limit=40, short_limit=30).short_limit == 30
    assert rules_with(limit=40).short_limit == rules_with().short_limit


def test_given_keys_stand_over_the_profile() -> None:
    """Each of the rules can be set; those not given stay the profile's."""
    rules = rules_with(probes=32, limit=40, window="2h", recrawl="update", observe=True, featureless="rejected")
    assert (rules.probes, rules.limit, rules.short_limit) == (32, 40, rules_with().short_limit)
    assert (rules.window_ms, rules.recrawl, rules.observe, rules.featureless) == (7_200_000, "update", True, "rejected")
    assert rules_with(profile="simhash", distance=7).distance == 7


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("match", {"limit": 40, "window": "1h", "recrawl": "update", "observe": True, "bucket_limit": 5}),
        ("worker", {"processes": 3}),
        ("features", {"segmenter": "jieba"}),
    ],
)
def test_what_only_the_verdict_depends_on_is_not_in_the_scheme(section: str, keys: dict[str, object]) -> None:
    """Rules can change within one log."""
    assert rules_of(load_config(None, {section: keys}, {})).scheme == rules_with().scheme


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("input", {"scope_field": "site"}),
        ("input", {"fields": {"title": 3, "text": 1}}),
        ("input", {"html_fields": ["text"]}),
        ("input", {"markup": "html"}),
        ("text", {"numbers": "drop"}),
        ("text", {"tags": False}),
        ("text", {"join_numbers": False}),
        ("text", {"unspace": True}),
        ("text", {"article_size": 200}),
        ("text", {"exact_size": 5}),
        ("features", {"kind": "chars"}),
        ("features", {"weights": "tf"}),
        ("features", {"top_k": 50}),
        ("features", {"damped": False}),
        ("features", {"damping": 3}),
        ("features", {"idf": "jieba"}),
        ("features", {"root": False}),
        ("features", {"key_sentences": 2}),
        ("features", {"seed": 1}),
        ("features", {"tables": 8}),
    ],
)
def test_what_an_entry_depends_on_is_in_the_scheme(section: str, keys: dict[str, object]) -> None:
    """Another one is another log."""
    assert rules_of(load_config(None, {section: keys}, {})).scheme != rules_with().scheme


def test_every_step_of_the_normalisation_is_a_key() -> None:
    """So are the features of words, but how words are cut and what pairs of characters weigh: the profile's own."""
    assert set(NORMALISATION) == {field.name for field in fields(Normalisation)}
    assert set(PROFILE_FEATURES) == {field.name for field in fields(Features)} - {"words", "gram_weights"}


def test_what_the_core_is_given_is_what_the_sections_say() -> None:
    """Fields, HTML and scope reach both the reading of records and the making of entries."""
    given = {"id_field": "url", "fields": {"title": 3, "body": 1}, "html_fields": ["body"], "scope_field": "site"}
    config = load_config(None, {"input": given, "features": {"top_k": 50}}, {})
    fmt, settings = input_format_of(config), fingerprint_settings_of(config)
    assert (fmt.id_field, fmt.text_fields, fmt.scope_field) == ("url", ("title", "body"), "site")
    assert (settings.field_weights, settings.html, settings.scope_field) == ((3, 1), (False, True), "site")
    assert settings.long.features.top_k == 50


def test_weights_of_fields_come_from_the_environment_too() -> None:
    """As names and weights with commas between them."""
    config = load_config(
        None, {}, {"STREAM_DEDUP_INPUT__FIELDS": "title=3, text=1", "STREAM_DEDUP_FEATURES__TABLES": "8"}
    )
    assert config.input.fields == {"title": 3, "text": 1}
    assert config.features.tables == 8


def test_a_distance_in_a_directed_profile_names_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    """`--distance` is about fingerprints; article and comment have `limit` and `probes`."""
    for profile in ("article", "comment"):
        assert run(["config", "check", "--profile", profile, "--distance", "5"]) == 2
        told = capsys.readouterr().err
        assert all(word in told for word in ("match.distance", "match.limit", "match.probes", "--limit", "--probes"))


@pytest.mark.parametrize("key", ["probes", "limit", "short_limit"])
def test_limits_of_signatures_in_exact_search_name_the_distance(tmp_path: Path, key: str) -> None:
    """And the other way round in profile simhash."""
    (told,) = problems_of(tmp_path, f'[match]\nprofile = "simhash"\n{key} = 9\n')
    assert told.startswith(f"match.{key}, ")
    assert "match.distance (--distance)" in told


@pytest.mark.parametrize(
    ("text", "keys", "word"),
    [
        ('[match]\nprofile = "simhash"\n[features]\ntables = 8\n', "features.tables", "four tables"),
        ("[match]\nprobes = 3000\n", "match.probes", "at most 2788"),
        ('[match]\nsearch = "exact"\n', "match.distance", "profile article has none"),
        ("[text]\narticle_size = 50\nexact_size = 60\n", "text.exact_size", "smaller"),
        ('[input]\nhtml_fields = ["body"]\n', "input.html_fields", "'body' is none of the fields"),
        ("[input]\nfields = { title = 2 }\ntext_field = 'body'\n", "input.text_field", "input.fields"),
        ('[input]\nformat = "text"\nscope_field = "site"\n', "input.scope_field", "plain text has no fields"),
        ('[features]\nstop_words = "/no/such"\n', "features.stop_words", "no readable file"),
        ('[features]\nuser_dictionary = "/"\n', "features.user_dictionary", "no readable file"),
        (f'[features]\nkind = "chars"\nstop_words = "{__file__}"\n', "features.stop_words", "characters"),
        ('[match]\nprofile = "comment"\n[features]\ntop_k = 5\n', "features.top_k", "every text is short"),
        ("[input]\nfields = { title = 99 }\n", "input.fields", "1 to 16"),
        ("[features]\ntables = 5\n", "features.tables", "4, 8 or 16"),
    ],
)
def test_what_is_wrong_between_keys_is_named(tmp_path: Path, text: str, keys: str, word: str) -> None:
    """With the key to change and what to do."""
    told = [line for line in problems_of(tmp_path, text) if line.startswith(keys)]
    assert told
    assert word in told[0]


def test_an_exact_search_over_a_directed_profile_needs_a_distance_only(tmp_path: Path) -> None:
    """A profile can be changed: its text and features, another search."""
    config = load_config(write(tmp_path, '[match]\nsearch = "exact"\ndistance = 7\n'), {}, {})
    assert (rules_of(config).search, rules_of(config).distance, rules_of(config).scheme.name) == ("exact", 7, "article")


@pytest.mark.parametrize("window", ["104249991d", "999999999h"])
def test_a_window_that_is_taken_can_be_kept(window: str) -> None:
    """What `config check` takes, the rules of a log take."""
    rules = rules_of(load_config(None, {"match": {"window": window}}, {}))
    assert Rules.from_json(rules.to_json()).window_ms == parse_duration_ms(window)


@pytest.mark.parametrize("window", ["104249992d", "999999999d"])
def test_a_window_that_no_rules_can_hold_is_told(window: str) -> None:
    """With the longest."""
    with pytest.raises(ConfigError, match=f"match.window = '{window}' .*longer than 104249991 days"):
        load_config(None, {"match": {"window": window}}, {})


def numeric_keys() -> dict[str, tuple[float | None, float | None]]:
    """Least and greatest value of every key that is a number."""
    schema = Config.model_json_schema()
    found = {}
    for part in (one for one in schema["properties"].values() if "$ref" in one or "default" in one):
        section = part.get("$ref", "").rpartition("/")[2]
        name = next((name for name, one in schema["properties"].items() if one is part), "")
        for key, inner in schema["$defs"].get(section, {}).get("properties", {}).items():
            for one in (inner, *inner.get("anyOf", ())):
                if one.get("type") in {"integer", "number"} and "enum" not in inner:
                    found[f"{name}.{key}"] = (one.get("minimum"), one.get("maximum"))
    return found


@pytest.mark.parametrize("name", numeric_keys())
def test_every_number_has_two_ends(name: str) -> None:
    """Beyond them it is told as wrong; a text of thousands of digits too."""
    least, most = numeric_keys()[name]
    assert least is not None
    assert most is not None
    section, _, key = name.partition(".")
    for wrong in (least - 1, most + 1, "9" * 5000, "1e999"):
        with pytest.raises(ConfigError, match=f"{section}.{key} ="):
            load_config(None, {section: {key: str(wrong)}}, {})


def test_the_numbers_are_found() -> None:
    """The check above is about all of them."""
    assert {"kafka.session_timeout_s", "match.limit", "worker.processes", "features.seed"} <= set(numeric_keys())
