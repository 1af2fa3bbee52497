"""The scheme changes with whatever an entry depends on, and with nothing else."""

import ast
import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import xxhash

from stream_dedup import _native, core
from stream_dedup.core import scheme
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.core.scheme import FingerprintSettings, Normalisation, scheme_of
from stream_dedup.errors import UserError
from tests.reference.weights import COMMON_WORDS, jieba_file

ALLOWED = set(
    """
    __future__ collections concurrent contextlib dataclasses enum functools importlib itertools json math pathlib re
    struct sys html operator types typing unicodedata uuid warnings numpy xxhash orjson jieba stream_dedup
    """.split()  # noqa: SIM905 - a list of this length is read as prose
)
INSIDE = ("stream_dedup.core", "stream_dedup.errors")


def test_the_schemes_have_not_changed() -> None:
    """Logs and indexes were made under it: a change needs a new version, on purpose."""
    assert scheme_of(FingerprintSettings()) == scheme_of(PROFILES["simhash"].settings)
    assert {name: scheme_of(profile.settings).id for name, profile in PROFILES.items()} == {
        "article": "article/3-284d2c10",
        "comment": "comment/3-dd5c9007",
        "simhash": "simhash/1-00846856",
    }


CLASSIC, ARTICLE, COMMENT = (PROFILES[name].settings for name in ("simhash", "article", "comment"))
FILE = Path(__file__)


@pytest.mark.parametrize(
    ("base", "other"),
    [
        *(
            (CLASSIC, CLASSIC.with_features(**one))
            for one in ({"weights": "tf"}, {"weights": "level"}, {"damped": False})
        ),
        *(
            (CLASSIC, CLASSIC.with_features(**one))
            for one in ({"top_k": 50}, {"words": "marked"}, {"idf": "languages"})
        ),
        (CLASSIC, CLASSIC.with_features(root=True)),
        (CLASSIC, CLASSIC.with_features(damping=2)),
        (CLASSIC, replace(CLASSIC, profile="other")),
        (CLASSIC, replace(CLASSIC, version=2)),
        *((CLASSIC, replace(CLASSIC, seed=one)) for one in (1, 2)),
        *((CLASSIC, replace(CLASSIC, tables=one)) for one in (8, 16)),
        *((CLASSIC, replace(CLASSIC, block_bits=one)) for one in (20, 24)),
        (CLASSIC, replace(CLASSIC, article_size=1)),
        (CLASSIC, replace(CLASSIC, exact_size=1)),
        (CLASSIC, replace(CLASSIC, fields=(("text", 1),))),
        (replace(CLASSIC, fields=(("a", 1), ("b", 1))), replace(CLASSIC, fields=(("b", 1), ("a", 1)))),
        (CLASSIC, replace(CLASSIC, key_sentences=1)),
        (CLASSIC, replace(CLASSIC, markup="html")),
        (CLASSIC, replace(CLASSIC, sketch=((3, 16),))),
        (replace(CLASSIC, sketch=((3, 16),)), replace(CLASSIC, sketch=((4, 16),))),
        (CLASSIC, replace(CLASSIC, user_dictionary=FILE)),
        (CLASSIC, replace(CLASSIC, stop_words=FILE)),
        (CLASSIC, replace(CLASSIC, scope_field="site")),
        (ARTICLE, COMMENT),
        (ARTICLE, replace(ARTICLE, article_size=200)),
        (ARTICLE, replace(ARTICLE, exact="characters")),
        (COMMENT, replace(COMMENT, article_size=300)),
        *(
            (base, base.with_normalisation(**{one.name: "token" if one.type == "Treat" else True}))
            for base in (CLASSIC, replace(CLASSIC, article_size=None))
            for one in fields(Normalisation)
        ),
    ],
)
def test_what_changes_entries_changes_the_scheme(base: FingerprintSettings, other: FingerprintSettings) -> None:
    """Each setting of each step changes the scheme."""
    assert scheme_of(other).id != scheme_of(base).id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CLASSIC.with_features(weights="tf"), CLASSIC.with_features(weights="tf", damped=False, root=True)),
        (CLASSIC, replace(CLASSIC, short=COMMENT.short)),
        (COMMENT, replace(COMMENT, long=CLASSIC.long)),
        (COMMENT, replace(COMMENT, user_dictionary=FILE, stop_words=FILE)),
        (CLASSIC, replace(CLASSIC, html_fields=("nobody",))),
        (CLASSIC, replace(CLASSIC, exact="letters")),
        (CLASSIC, CLASSIC.with_features(gram_weights=(1, 1, 1))),
    ],
)
def test_what_changes_no_entry_does_not(one: FingerprintSettings, other: FingerprintSettings) -> None:
    """Settings without effect do not change the scheme."""
    assert scheme_of(one) == scheme_of(other)


def test_the_width_of_blocks_is_named() -> None:
    """The scheme names the bits of a block."""
    for block_bits in (16, 20, 24):
        scheme = scheme_of(replace(ARTICLE, block_bits=block_bits))
        assert (scheme.block_bits, scheme.problems()) == (block_bits, [])
        assert scheme.flat()["block_bits"] == block_bits


def test_tables_are_named() -> None:
    """The scheme names its number of tables."""
    assert [scheme_of(replace(ARTICLE, tables=tables)).tables for tables in (4, 8, 16)] == [4, 8, 16]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES.keys())
def test_entries_have_the_widths_that_their_scheme_says(profile: Profile) -> None:
    """The settings and the scheme that is named after them say the same."""
    assert scheme_of(profile.settings).widths == profile.settings.widths


def test_parameters_are_canonical_json() -> None:
    """Equal settings give equal JSON: sorted keys, no spaces."""
    text = scheme_of(FingerprintSettings()).parameters
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text


@pytest.mark.parametrize("changed", sorted(_native.DATA_HASHES))
def test_data_files_count_by_their_content(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """A dictionary of other content makes another scheme, and so does each table of the native core."""
    before = scheme_of(ARTICLE)
    monkeypatch.setitem(_native.DATA_HASHES, changed, "0" * 16)
    assert scheme_of(ARTICLE) != before


def test_data_are_named_by_the_hashes_of_their_files() -> None:
    """Of jieba's package, and of this one, as they were when the native core was built."""
    files = {name: jieba_file(name) for name in _native.DATA_HASHES} | {COMMON_WORDS.name: COMMON_WORDS}
    assert {name: xxhash.xxh3_64_hexdigest(file.read_bytes()) for name, file in files.items()} == _native.DATA_HASHES


@pytest.mark.parametrize("step", scheme._STEPS)
def test_each_step_is_named_by_some_scheme(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A new version of a step makes another scheme of the settings under which it is taken."""
    every = replace(
        COMMENT.with_normalisation(
            **{one.name: "token" if one.type == "Treat" else True for one in fields(Normalisation)}
        ),
        long=CLASSIC.long,
        article_size=100,
        key_sentences=1,
        markup="html",
        sketch=((3, 16),),
        form=True,
        stop_words=FILE,
        deletes=True,
    )
    settings = (every, replace(every, exact="characters"), replace(every, exact="letters"), ARTICLE)
    before = [scheme_of(one).id for one in settings]
    monkeypatch.setitem(scheme._STEPS, step, f"next-{scheme._STEPS[step]}")
    assert [scheme_of(one).id for one in settings] != before


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    """The error for a missing data file names it and the remedy."""
    with pytest.raises(UserError, match=r"gone\.txt cannot be read .* install its package again"):
        scheme_of(replace(CLASSIC, stop_words=tmp_path / "gone.txt"))


def test_the_core_imports_no_clock_no_randomness_no_logging_and_no_adapter() -> None:
    """Values in, values out: every import in the package is one of a short list."""
    folder = Path(core.__path__[0])
    found = {
        (file.name, name)
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in _names(node)
    }
    assert {(file, name) for file, name in found if name.split(".")[0] not in ALLOWED} == set()
    ours = {(file, name) for file, name in found if name.startswith("stream_dedup.")}
    assert {(file, name) for file, name in ours if not name.startswith(INSIDE)} == set()


def test_naming_the_scheme_loads_no_numpy() -> None:
    """Computing the scheme does not load numpy, so configuration commands start quickly."""
    code = "import sys, stream_dedup.core.scheme, stream_dedup.core.decode; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
