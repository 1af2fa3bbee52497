"""The three sources of the configuration, and its errors: all problems at once, no secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest
from annotated_types import Ge, Le
from pydantic import BaseModel

from stream_dedup.config.keys import ConfigError, all_keys, parse_duration_ms
from stream_dedup.config.load import load_config, read_profile
from stream_dedup.config.model import Config, read_secret
from stream_dedup.config.profile_file import ProfileFile
from stream_dedup.core.profiles import PROFILES
from tests.config.files import problems_of, write
from tests.profiles import write_profile

MOST_KEYS = 75
"""What an operator can survey."""
SECRET = "hunter2-do-not-print"  # noqa: S105 - what the tests look for


def test_nothing_given_is_a_configuration() -> None:
    """Without file, environment and flags the defaults stand."""
    config = load_config(None, {}, {})
    assert config == Config()
    assert (config.topics.input, config.topics.unique, config.kafka.group) == (["articles"], "unique", "stream-dedup")
    assert config.log_topic == "stream-dedup.fingerprints"


def test_flags_stand_over_environment_over_file(tmp_path: Path) -> None:
    """Of three sources that give one key, the flag's value holds, then the environment's."""
    path = write(tmp_path, '[kafka]\nbrokers = "file:1"\ngroup = "file"\n[match]\ncopies = 1\n')
    environment = {"STREAM_DEDUP_KAFKA__GROUP": "env", "STREAM_DEDUP_MATCH__COPIES": "2"}
    config = load_config(path, {"match": {"copies": "5", "window": None}}, environment)
    assert (config.kafka.brokers, config.kafka.group, config.match.copies) == ("file:1", "env", 5)


def test_a_section_that_is_no_table_is_told_whatever_stands_over_it(tmp_path: Path) -> None:
    """A flag without a value gives no section; a variable below a key is no key."""
    path = write(tmp_path, 'kafka = "b:1"\n')
    for kafka in ({}, {"brokers": None}):
        with pytest.raises(ConfigError, match="kafka"):
            load_config(path, {"kafka": kafka}, {})
    both = {"STREAM_DEDUP_LOG_LEVEL": "info", "STREAM_DEDUP_LOG_LEVEL__X": "1"}
    for environment in (both, dict(reversed(both.items()))):
        with pytest.raises(ConfigError, match="log_level"):
            load_config(None, {}, environment)


def test_a_key_with_a_problem_is_told_beside_a_section_that_is_no_table(tmp_path: Path) -> None:
    """The section gives way to the key, as to one without a problem."""
    with pytest.raises(ConfigError, match=r"kafka.compression = 'x' \(flag\)"):
        load_config(write(tmp_path, 'kafka = "b:1"\n'), {"kafka": {"compression": "x"}}, {})


def test_a_key_that_is_a_table_is_shown_as_one(tmp_path: Path) -> None:
    """And not by what it holds, which may be a value that the key has."""
    (problem,) = problems_of(tmp_path, '[log_level]\nx = "info"\n')
    assert problem.startswith("log_level = {'x': 'info'} (file ")


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
    text = 'nonsense = 1\n[kafka]\nbrokers = "x"\n[match]\ncopies = 33\nwindow = "24"\n[topics]\nunique = "articles"\n'
    told = problems_of(tmp_path, text, environment={"STREAM_DEDUP_WORKER__BATCH_RECORDS": "many"})
    named = [line.split(" ")[0].strip(",:") for line in told]
    assert sorted(named) == [
        "kafka.brokers",
        "match.copies",
        "match.window",
        "nonsense",
        "topics",
        "worker.batch_records",
    ]


def test_a_problem_names_key_value_source_reason_and_remedy(tmp_path: Path) -> None:
    """One line says what is wrong and what to give instead."""
    told = problems_of(tmp_path, "[match]\ncopies = 33\n")
    assert told == [
        f"match.copies = 33 (file {tmp_path / 'worker.toml'}): must be less than or equal to 32; give 1 to 32"
    ]


def test_the_file_of_a_secret_is_guessed_as_a_file(tmp_path: Path) -> None:
    """Nobody is led to write the secret where its path belongs."""
    (told,) = problems_of(tmp_path, f'[kafka]\nsasl_password = "{SECRET}"\n')
    assert told.endswith("did you mean 'sasl_password_file', the path of a file that contains the secret?")


@pytest.mark.parametrize(("key", "meant"), [("brokrs", "brokers"), ("session_timeout", "session_timeout_s")])
def test_an_unknown_key_is_a_problem_with_a_guess(tmp_path: Path, key: str, meant: str) -> None:
    """A misspelt key is not passed over; the nearest known one is named."""
    assert f"did you mean '{meant}'?" in problems_of(tmp_path, f"[kafka]\n{key} = 1\n")[0]


def test_an_unknown_section_is_a_problem(tmp_path: Path) -> None:
    """So is a section that nobody knows, in a file and in a variable."""
    told = problems_of(tmp_path, "[metrcs]\nx = 1\n", environment={"STREAM_DEDUP_KAFAK__GROUP": "x"})
    assert [line.partition(" ")[0] for line in told] == ["metrcs", "kafak"]


@pytest.mark.parametrize(
    ("text", "name", "belongs"),
    [
        ("[match]\ncandidates = 9\n", "match.candidates", "search.candidates"),
        ("[match]\nurls = 'drop'\n", "match.urls", "text.urls"),
        ("[features]\nseed = 1\n", "features", "[features]"),
        ("[search]\nkind = 'exact'\n", "search", "[search]"),
    ],
)
def test_a_key_of_a_profile_is_no_key_of_the_configuration(tmp_path: Path, text: str, name: str, belongs: str) -> None:
    """The problem says where it belongs, and guesses at no other key."""
    (told,) = problems_of(tmp_path, text)
    assert told.startswith(f"{name} (file {tmp_path / 'worker.toml'}): unknown key; {belongs} belongs to a profile: ")
    assert told.endswith('a file with from = "article" that match.profile names')


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("match", "copies", "true"),
        ("kafka", "session_timeout_s", "true"),
        ("topics", "replication", "true"),
        ("input", "fields", "{ title = true }"),
    ],
)
def test_true_is_no_number(tmp_path: Path, section: str, key: str, value: str) -> None:
    """Nor is false 0: not for a number, and not in a table of numbers."""
    for given in (value, value.replace("true", "false")):
        (told,) = problems_of(tmp_path, f"[{section}]\n{key} = {given}\n")
        assert told.startswith(f"{section}.{key} = ")
        assert "must be a number; give " in told


def test_true_is_no_number_of_a_profile(tmp_path: Path) -> None:
    """`certain = true` was 1."""
    with pytest.raises(ConfigError, match=r"search.certain = true .*: must be a number; give 0 to 256"):
        read_profile(write_profile(tmp_path, "article", search={"certain": True}))


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the profile too. Those of the environment and of flags are relative to the working directory."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "ca.pem").touch()
    write_profile(folder, "comment")
    text = '[match]\nprofile = "profile.toml"\n[index]\npath = "data"\n[registry]\nssl_cafile = "ca.pem"\n'
    path = write(folder, f'{text}[serve]\ndata_dir = "served"\n')
    monkeypatch.chdir(elsewhere)
    config = load_config(Path("../folder") / path.name, {}, {})
    there = elsewhere / "../folder"
    assert (config.index.path, config.registry.ssl_cafile) == (there / "data", there / "ca.pem")
    assert config.match.profile == replace(PROFILES["comment"], path=there / "profile.toml")
    config = load_config(path, {"index": {"path": "data"}}, {"STREAM_DEDUP_SERVE__DATA_DIR": "served"})
    assert (config.index.path, config.serve.data_dir) == (Path("data"), Path("served"))


@pytest.mark.parametrize(
    "text",
    [
        f'[kafka]\nsasl_password = ["{SECRET}"]\n',
        f'[kafka]\nsasl_pasword = "{SECRET}"\n',
        f'[kafak]\nsasl_password = "{SECRET}"\n',
        f'[kafka]\nsasl_password = "{SECRET}"\nsasl_password_file = "/nope"\nbrokers = "x"\n',
        f'[registry]\npassword = "{SECRET}"\n',
        f'sasl_password = "{SECRET}"\n',
        f'[kafka]\nsasl_password_file = "{SECRET}"\n',
        f'[kafka]\nsasl_token_file = ["{SECRET}"]\n',
        f'[registry]\ntoken_file = "{SECRET * 100}"\n',
    ],
)
def test_a_secret_is_in_no_problem(tmp_path: Path, text: str) -> None:
    """Wrong or misspelt, or given where its file's path belongs, a secret's value is not in the message."""
    assert SECRET not in "\n".join(problems_of(tmp_path, text))


def test_a_missing_file_does_not_hide_other_problems(tmp_path: Path) -> None:
    """With a file that cannot be read the flags' problems are told too."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "no.toml", {"match": {"copies": "x"}}, {})
    assert len(caught.value.problems) == 2


def test_a_file_that_is_no_toml_names_the_line(tmp_path: Path) -> None:
    """The message about a syntax error has its line."""
    assert "line 2" in problems_of(tmp_path, "[kafka]\nbrokers = \n")[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"a = {'[' * 100_000}", "cannot be read"),
        ("[kafka]\nbrokers" + ".a" * 2000 + " = 1\n", "kafka.brokers = … (file "),
    ],
    ids=["brackets", "dots"],
)
def test_a_file_that_is_nested_too_deep_is_a_problem(tmp_path: Path, text: str, said: str) -> None:
    """Also where the reader of TOML has no error of its own for it."""
    (problem,) = problems_of(tmp_path, text)
    assert said in problem


def test_an_unknown_section_is_told_without_a_key_too(tmp_path: Path) -> None:
    """Such as one whose keys are all comments; a known one is as if it were not there."""
    (problem,) = problems_of(tmp_path, "[kafak]\n# brokers = 'b:1'\n")
    assert problem.startswith("kafak (file ")
    assert load_config(write(tmp_path, "[kafka]\n"), {"kafka": {"group": "g"}}, {}).kafka.group == "g"


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("15m", 900_000), ("24h", 86_400_000), ("7d", 604_800_000), ("1 d", 86_400_000)]
)
def test_durations(text: str, ms: int) -> None:
    """A duration is a number with s, m, h or d."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "24", "0s", "-1h", "1w", "1.5h", "h"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is none, and neither is nothing at all."""
    with pytest.raises(ValueError, match="not a duration"):
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
    assert read_secret(config.kafka.sasl_password_file) == SECRET
    assert read_secret(config.kafka.ssl_password_file) is None


@pytest.mark.parametrize("window", ["104249992d", "999999999d"])
def test_a_window_that_no_rules_can_hold_is_told(window: str) -> None:
    """With the longest."""
    with pytest.raises(ConfigError, match=f"match.window = '{window}' .*longer than 104249991 days"):
        load_config(None, {"match": {"window": window}}, {})


def numeric_keys(model: type[BaseModel] = Config) -> dict[str, tuple[float | None, float | None]]:
    """Least and greatest value of every key that is a number."""
    found = {}
    for name, field in all_keys(model):
        union = get_args(field.annotation) if get_origin(field.annotation) is UnionType else (field.annotation,)
        if {int, float} & set(union):
            bounds: dict[type, Any] = {type(one): one for one in field.metadata}
            found[name] = (bounds[Ge].ge if Ge in bounds else None, bounds[Le].le if Le in bounds else None)
    return found


@pytest.mark.parametrize("name", [*numeric_keys(), *numeric_keys(ProfileFile)])
def test_every_number_has_two_ends(name: str, tmp_path: Path) -> None:
    """Beyond them the message says so; a text of thousands of digits too."""
    section, _, key = name.partition(".")
    least, most = (numeric_keys() | numeric_keys(ProfileFile))[name]
    assert least is not None
    assert most is not None
    for wrong in (least - 1, most + 1, "9" * 5000, "1e999"):
        given = {section: {key: str(wrong)}}
        if section in ProfileFile.model_fields:
            given = {"match": {"profile": write_profile(tmp_path, "article", **given)}}
        with pytest.raises(ConfigError, match=f"{section}.{key} ="):
            load_config(None, given, {})


def test_the_numbers_are_found() -> None:
    """The check above is about all of them."""
    assert {"kafka.session_timeout_s", "match.copies", "worker.threads"} <= set(numeric_keys())
    assert {"text.exact_size", "search.limit", "features.seed"} <= set(numeric_keys(ProfileFile))


def test_an_operator_has_few_keys() -> None:
    """A value that belongs to a profile, or that nobody decides, is no key of the configuration."""
    assert len(list(all_keys(Config))) <= MOST_KEYS
