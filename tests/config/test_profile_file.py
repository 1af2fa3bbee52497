"""A profile's file: what its keys make of the profile that it starts from, and every problem at once."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from threading import Thread

import pytest

from stream_dedup.config.effective import rules_of
from stream_dedup.config.keys import ConfigError, all_keys
from stream_dedup.config.load import load_config, read_profile
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import ProfileFile, file_text, own_keys, shown_values, values_of
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.core.rules import SEARCH_RULES, Rules
from stream_dedup.core.scheme import Features, Normalisation


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def problems_of(folder: Path, text: str, other: str = "") -> list[str]:
    """The problems of a configuration with this profile, without the name of its file."""
    path = write(folder, text)
    config = folder / "worker.toml"
    config.write_text(f'{other}[match]\nprofile = "{path}"\n', "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(config, {}, {})
    return [line.replace(f" (file {path})", "") for line in caught.value.problems]


def rules(folder: Path, text: str) -> Rules:
    return rules_of(load_config(None, {"match": {"profile": str(write(folder, text))}}, {}))


@pytest.mark.parametrize("name", PROFILES)
def test_a_file_without_keys_is_the_built_in_profile(tmp_path: Path, name: str) -> None:
    """But for its name; and what is written of a built-in profile is such a file."""
    path = write(tmp_path, f'from = "{name}"\n')
    assert read_profile(path) == replace(PROFILES[name], path=path)
    assert read_profile(path).name == str(path)
    assert file_text(PROFILES[name]) == path.read_text("utf-8")


OTHER = {
    "kind": '"chars"',
    "weights": '"tf"',
    "idf": '"jieba"',
    "quotes": '"keep"',
    "user_dictionary": '"words"',
    "stop_words": '"words"',
    "tables": "8",
    "block_bits": "24",
    "article_size": "200",
}
"""Values that differ from those of profile article, where neither a switch nor the number 5 does."""
SEARCH_OF = {"distance": 'kind = "exact"\n', "far_min_equal": "min_equal = 4\nshort_min_equal = 4\n"}
"""What else a key needs."""


@pytest.mark.parametrize("key", [name for name, _ in all_keys(ProfileFile) if name != "search.kind"])
def test_each_key_changes_its_value_and_no_other(tmp_path: Path, key: str) -> None:
    """What is written of the profile is read as the same; the scheme differs for text and features, and for no rule."""
    (tmp_path / "words").write_text("ferry\n", "utf-8")
    section, _, name = key.partition(".")
    before = values_of(PROFILES["article"])[key]
    value = OTHER.get(name, "5")
    if isinstance(before[0], bool):
        value = "true" if before == (False, False) else "false"
    elif section == "text" and name in {field.name for field in fields(Normalisation)}:
        value = OTHER.get(name, '"drop"' if before[0] != "drop" else '"keep"')
    needed = SEARCH_OF.get(name, "")
    path = write(tmp_path, f'from = "article"\n[{section}]\n{needed}{name} = {value}\n')
    profile = read_profile(path)
    assert key in own_keys(profile)
    if not needed:
        assert list(own_keys(profile)) == [key]
    again = write(tmp_path, file_text(profile))
    made = read_profile(again)
    assert own_keys(made).keys() == own_keys(profile).keys()
    assert shown_values(made).keys() == shown_values(profile).keys()
    own, base = (rules_of(load_config(None, {"match": {"profile": one}}, {})) for one in (made, "article"))
    assert (own.scheme != base.scheme) == (section != "search")
    assert replace(own, scheme=base.scheme) != base if section == "search" else own.differences(base) == []
    assert own.problems() == []


def test_every_setting_of_a_profile_is_a_key() -> None:
    """But how words are cut, what pairs of characters weigh, and of what sketch and form are made."""
    keys = {name.partition(".")[2] for name, _ in all_keys(ProfileFile)}
    assert {field.name for field in fields(Normalisation)} <= keys
    assert {field.name for field in fields(Features)} - keys == {"words", "gram_weights"}
    assert {field.name for field in fields(Profile)} - keys == {"settings", "search", "path"}
    assert set(SEARCH_RULES) <= keys
    assert not keys & {name.rpartition(".")[2] for name, _ in all_keys(Config) if name.startswith("match.")}


def test_where_every_text_is_short_the_limit_is_theirs(tmp_path: Path) -> None:
    """In profile comment `limit` decides; in article short texts have their own."""
    comment, article = 'from = "comment"\n[search]\nlimit = 40\n', 'from = "article"\n[search]\nlimit = 40\n'
    assert rules(tmp_path, comment).short_limit == 40
    assert rules(tmp_path, comment + "short_limit = 30\n").short_limit == 30
    assert rules(tmp_path, article).short_limit == PROFILES["article"].short_limit


def test_numbers_that_stand_for_all(tmp_path: Path) -> None:
    """0 candidates are all of them; so are 0 features."""
    made = rules(tmp_path, 'from = "comment"\n[search]\ncandidates = 0\n')
    assert made.candidates is None
    assert own_keys(read_profile(tmp_path / "mine.toml")) == {"search.candidates": 0}


def test_an_exact_search_over_a_directed_profile_needs_a_distance_only(tmp_path: Path) -> None:
    """A profile keeps its text and features, and what directed search asks for is gone."""
    made = rules(tmp_path, 'from = "article"\n[search]\nkind = "exact"\ndistance = 7\n')
    assert (made.search, made.distance, made.scheme.name) == ("exact", 7, "article")
    assert {getattr(made, name) for name in SEARCH_RULES} == {7, None}
    assert made.problems() == []


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the working directory is, or becomes; what is written of the profile may stand in another folder."""
    for name in ("folder", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "words").write_text("ferry\n", "utf-8")
    write(tmp_path / "folder", 'from = "article"\n[features]\nstop_words = "words"\n')
    monkeypatch.chdir(tmp_path)
    profile = read_profile(Path("folder/mine.toml"))
    assert profile.settings.stop_words == tmp_path / "folder" / "words"
    again = read_profile(write(tmp_path / "other", file_text(profile)))
    assert again.settings.stop_words == tmp_path / "folder" / "words"


@pytest.mark.parametrize("text", [None, 'from = "article"\nnone = 1\n'])
def test_a_name_that_is_not_utf8_is_no_defect(tmp_path: Path, text: str | None) -> None:
    """Of a file with a problem, or of none: the error names it."""
    path = tmp_path / "caf\udce9.toml"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"match": {"profile": str(path)}}, {})
    assert [("caf" in line, str(tmp_path) in line) for line in caught.value.problems] == [(True, True)]


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """With those of the configuration: unknown keys, wrong values, what is wrong between keys; no unknown value."""
    text = (
        'from = "article"\nspare = "hidden"\n[text]\nurl = "drop"\n[features]\ntables = 5\n[search]\nmin_equal = 49\n'
    )
    told = problems_of(tmp_path, text, '[kafka]\nbrokers = "x"\n')
    assert sorted(line.split(" ")[0].strip(",:") for line in told) == [
        "features.tables",
        "kafka.brokers",
        "search.min_equal",
        "spare",
        "text.url",
    ]
    assert "hidden" not in "".join(told)
    (unknown,) = [line for line in told if line.startswith("text.url:")]
    assert unknown == "text.url: unknown key; did you mean 'urls'?"


def test_a_file_is_read_once(tmp_path: Path) -> None:
    """Also where another key is wrong: a pipe has its content once, and then no end."""
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=['from = "comment"\n[search]\nlimit = 300\n'], daemon=True)
    writer.start()
    told: list[str] = []

    def load() -> None:
        with pytest.raises(ConfigError) as caught:
            load_config(None, {"match": {"profile": str(pipe), "copies": 99}}, {})
        told.extend(caught.value.problems)

    reader = Thread(target=load, daemon=True)
    reader.start()
    reader.join(timeout=20)
    assert sorted(line.partition(" =")[0] for line in told) == ["match.copies", "search.limit"]


def test_known_keys_are_all_keys(tmp_path: Path) -> None:
    """The one that a file begins with among them; it is guessed as the others are."""
    nothing_near, near = problems_of(tmp_path, 'from = "article"\nxyz = 1\nfrm = 1\n')
    assert nothing_near == "xyz: unknown key; known keys: from, text, features, search"
    assert near == "frm: unknown key; did you mean 'from'?"


def test_a_problem_names_the_file(tmp_path: Path) -> None:
    """Beside the key, for a value and for keys that do not go together."""
    path = write(tmp_path, 'from = "comment"\n[search]\ndistance = 12\nform_limit = 9\n')
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"match": {"profile": str(path)}}, {})
    assert caught.value.problems == [
        f"search.distance = 12 (file {path}): must be less than or equal to 11; give 0 to 11",
        f"search.form_limit (file {path}): form_limit 9: not used in directed search under this scheme; remove it",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "from: missing; give article, comment or simhash"),
        ('from = "mine"\n', "from = 'mine': unknown value; give article, comment or simhash"),
        ("from = [1]\n", "from = [1]: unknown value; give article, comment or simhash"),
        ("from = \n", "Invalid value (at line 1, column 8)"),
    ],
)
def test_a_file_starts_from_a_built_in_profile(tmp_path: Path, text: str, told: str) -> None:
    """And says from which; other problems are told too, as far as they do not depend on it."""
    (line,) = problems_of(tmp_path, text)
    assert told in line


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("articl", "unknown value; give article, comment or simhash, or a profile file: a path that ends in .toml"),
        ("", "unknown value"),
        (3, "unknown value"),
        (["article"], "unknown value"),
        ("none.toml", "file none.toml: cannot be read (No such file or directory)"),
        ("a\0.toml", "cannot be read (embedded null byte); name a TOML file, in UTF-8, with match.profile (--profile)"),
    ],
)
def test_a_profile_that_is_none(value: object, told: str) -> None:
    """Its name or file is said, and what to give."""
    with pytest.raises(ConfigError, match="1 problem") as caught:
        load_config(None, {"match": {"profile": value}}, {})
    assert told in caught.value.problems[0]


@pytest.mark.parametrize("key", [name for name in SEARCH_RULES if name != "distance"])
def test_a_rule_of_the_other_search_is_refused(tmp_path: Path, key: str) -> None:
    """What is signatures' in exact search, and the distance of fingerprints in directed search."""
    (told,) = problems_of(tmp_path, f'from = "simhash"\n[search]\n{key} = 9\n')
    assert told == f"search.{key}: {key} 9: not used in exact search under this scheme; remove it"
    (told,) = problems_of(tmp_path, 'from = "comment"\n[search]\ndistance = 9\n')
    assert told == "search.distance: distance 9: not used in directed search under this scheme; remove it"


DIRECTED = 'from = "simhash"\n[search]\nkind = "directed"\nprobes = 8\nlimit = 9\nshort_limit = 9\n'


@pytest.mark.parametrize("key", ["min_equal", "short_min_equal", "dominated"])
def test_more_of_a_sketch_than_it_has(tmp_path: Path, key: str) -> None:
    """A profile without sketches takes 0 equal values and nothing else."""
    if key != "dominated":
        assert rules(tmp_path, f"{DIRECTED}{key} = 0\n").problems() == []
    (told,) = problems_of(tmp_path, f"{DIRECTED}{key} = 9\n")
    assert told.startswith(f"search.{key}: {key} 9: ")


@pytest.mark.parametrize("given", ["far", "far_min_equal"])
def test_far_and_its_number_take_each_other(tmp_path: Path, given: str) -> None:
    """Where the profile has neither."""
    (told,) = problems_of(tmp_path, f"{DIRECTED}{given} = 0\n")
    assert told.startswith("search.far, search.far_min_equal: ")
    assert told.endswith(": set both, or none of them")
    assert rules(tmp_path, f"{DIRECTED}far = 0\nfar_min_equal = 0\n").problems() == []


@pytest.mark.parametrize(
    ("text", "keys", "word"),
    [
        ('from = "simhash"\n[features]\ntables = 8\n', "search.kind, features.tables", "scheme of 4 tables"),
        ('from = "article"\n[search]\nprobes = 3000\n', "search.probes", "from 1 to 2788"),
        ('from = "article"\n[search]\nkind = "exact"\n', "search.distance", "distance none: must be"),
        ('from = "article"\n[text]\narticle_size = 50\nexact_size = 60\n', "text.exact_size", "smaller"),
        ('from = "article"\n[features]\nstop_words = "/no/such"\n', "features.stop_words", "not a readable file"),
        ('from = "article"\n[features]\nuser_dictionary = "/"\n', "features.user_dictionary", "not a readable file"),
        (
            f'from = "article"\n[features]\nkind = "chars"\nstop_words = "{__file__}"\n',
            "features.stop_words",
            "the features are characters",
        ),
        ('from = "comment"\n[features]\ntop_k = 5\n', "features.top_k", "every text is short"),
        ('from = "article"\n[features]\ntables = 5\n', "features.tables", "4, 8 or 16"),
        ('from = "article"\n[features]\nblock_bits = 18\n', "features.block_bits", "16, 20 or 24"),
        ('from = "simhash"\n[search]\ndistance = 6\n[features]\nblock_bits = 24\n', "search.distance", "from 0 to 5"),
        ('from = "comment"\n[search]\nfar_min_equal = 49\n', "search.far_min_equal", "from 0 to 48"),
    ],
)
def test_what_is_wrong_between_keys_is_named(tmp_path: Path, text: str, keys: str, word: str) -> None:
    """With the key to change and what to do."""
    told = [line for line in problems_of(tmp_path, text) if line.startswith(keys)]
    assert told
    assert word in told[0]


@pytest.mark.parametrize("name", ["article", "comment"])
def test_a_directed_profile_shows_what_it_searches_with(name: str) -> None:
    """Each rule that is not None, and none that exact search alone has."""
    shown = shown_values(PROFILES[name])
    assert {key for key in SEARCH_RULES if f"search.{key}" in shown} == {
        key for key in SEARCH_RULES if getattr(PROFILES[name], key) is not None
    }


FAR = 'from = "comment"\n[search]\nlimit = 70\nmin_equal = 20\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "far = 71\n",
            (
                "search.far, search.limit, search.short_limit: no entry beyond 70 bits is near; "
                "set search.far to at most 70, or a greater search.limit"
            ),
        ),
        (
            "far_min_equal = 19\n",
            (
                "search.far_min_equal, search.min_equal, search.short_min_equal: 20 values must be equal at any "
                "distance beyond search.certain; set at least 20, or 0 for no other number beyond search.far"
            ),
        ),
    ],
)
def test_what_says_nothing_of_far_entries_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """With the limits as they are in force, and what to set."""
    assert problems_of(tmp_path, FAR + text) == [told]
