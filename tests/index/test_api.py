"""The public API, without Kafka."""

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import stream_dedup
from stream_dedup import Found, Index, distance, fingerprint
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.errors import UserError
from stream_dedup.index import LogIndex

CAT = "the cat sat on the mat and looked at the rain for a long time before it fell asleep"
ICE = "we all scream for ice cream when the summer comes to our little town by the sea"
STORY = (
    "The ferry to the island was cancelled on Tuesday because of a storm, and some four hundred passengers spent the "
    "night in the harbour hall. The mayor brought blankets; a baker opened his shop at midnight. On Wednesday morning "
    "the wind dropped, the first boat left at seven, and by noon everybody had crossed. The company promised to pay "
    "for the tickets, and to mend the old pier before the winter comes."
)


def ids(found: list[Found]) -> list[str]:
    return [one.id for one in found]


ARTICLE = PROFILES["article"]


@pytest.mark.parametrize(
    ("profile", "found"),
    [(ARTICLE, ["1", "2"]), (replace(ARTICLE, bucket_limit=1), ["2"]), (replace(ARTICLE, candidates=1), ["2"])],
)
def test_the_bounds_of_a_profile_hold(profile: Profile, found: list[str]) -> None:
    """Of the entries of a posting list, and of those that are checked."""
    with Index(profile=profile) as index:
        for article_id in ("1", "2"):
            index.add(article_id, STORY)
        assert ids(index.search(STORY)) == found


def test_near_texts_are_found_nearest_first_then_earliest() -> None:
    """The classic profile: texts are added and searched; k is the distance in bits of the fingerprint."""
    with Index(profile="simhash") as index:
        index.add("far", fingerprint(CAT, "simhash") ^ 0b111)
        index.add("same", CAT)
        index.add("again", CAT.upper() + "!")
        index.add("other", ICE)
        found = index.search(CAT)
        assert [one[:2] for one in found] == [("same", 0), ("again", 0), ("far", 3)]
        # Of a fingerprint alone the similarity is that of 64 bits.
        assert [round(one.similarity, 3) for one in found] == [1.0, 1.0, 0.989]
        assert ids(index.search(CAT, k=2)) == ["same", "again"]
        assert len(index) == 4


def test_edited_articles_are_found_by_their_signatures() -> None:
    """The article profile: a re-post with another ending is near, at its distance over the signature."""
    with Index() as index:
        index.add("story", STORY)
        index.add("other", STORY[::-1])
        edited = STORY.replace("On Wednesday morning", "The next morning").replace(" before the winter comes", "")
        (found,) = index.search(edited)
        assert found.id == "story"
        assert 0 < found.distance <= 60
        assert 0.7 < found.similarity < 1
        assert index.search(edited, limit=found.distance) == [found]
        assert index.search(edited, limit=found.distance - 1) == []
        assert index.search(STORY, probes=1)[0].distance == 0


@pytest.mark.parametrize(("far", "found"), [(0, []), (60, ["story"])])
def test_far_articles_must_have_the_equal_values_of_the_profile(far: int, found: list[str]) -> None:
    """An edited article has not all values of its sketch left; the numbers are those of the profile given."""
    with Index(profile=replace(PROFILES["article"], far=far, far_min_equal=48, certain=None)) as index:
        index.add("story", STORY)
        assert ids(index.search(STORY.replace("On Wednesday morning", "The next morning"))) == found
        assert ids(index.search(STORY)) == ["story"]


def test_short_and_long_texts_never_match() -> None:
    """Short texts are compared by their characters, with each other."""
    with Index() as index:
        index.add("short", CAT)
        index.add("long", " ".join([CAT] * 10))
        assert ids(index.search(CAT.replace("long", "very long"))) == ["short"]
        assert ids(index.search(" ".join([CAT] * 11))) == ["long"]


def test_articles_match_within_their_scope() -> None:
    """A scope of one's own for those that name none."""
    with Index() as index:
        for scope in ("a", "b", None):
            index.add(f"in {scope}", STORY, scope)
        assert [ids(index.search(STORY, scope)) for scope in ("a", "b", None, "c")] == [
            ["in a"],
            ["in b"],
            ["in None"],
            [],
        ]


def test_every_near_article_is_found_however_many() -> None:
    """A search is no verdict: it names them all, the earliest first."""
    with Index() as index:
        for number in range(600):
            index.add(str(number), STORY)
        assert ids(index.search(STORY)) == [str(number) for number in range(600)]


@pytest.mark.parametrize("profile", ["simhash", "article"])
def test_every_distance_up_to_eleven_is_exact(profile: str) -> None:
    """An added fingerprint is found at exactly its distance, under any profile of four tables."""
    with Index(profile=profile) as index:
        index.add("a", 0)
        for k in range(12):
            value = sum(1 << (5 * bit) for bit in range(k))
            assert [one[:2] for one in index.search(value, k=k)] == [("a", k)]
            assert k == 0 or index.search(value, k=k - 1) == []


def test_an_index_on_a_path_is_kept(tmp_path: Path) -> None:
    """What was added is there in the next program; another scheme is refused."""
    with Index(tmp_path) as index:
        for number in range(1500):
            index.add(f"id {number}", number << 20)
        index.add("story", STORY)
    with Index(tmp_path) as index:
        assert len(index) == 1501
        assert index.search(77 << 20, k=0) == [Found("id 77", 0, 1.0)]
        assert ids(index.search(STORY)) == ["story"]
    with pytest.raises(UserError, match=r"has scheme article/3.*\nthe configuration gives scheme comment/3.*\n"):
        Index(tmp_path, "comment")


def test_an_id_may_be_any_text() -> None:
    """Half a surrogate pair too, as JSON may hold it."""
    with Index() as index:
        index.add("a\ud800", CAT)
        assert ids(index.search(CAT)) == ["a\ud800"]


def test_an_article_is_added_if_nothing_is_near() -> None:
    """In one step with the search, whose arguments it takes; a text without features is near nothing and not kept."""
    with Index() as index:
        assert index.add_if_new("story", STORY) == []
        (found,) = index.add_if_new("again", STORY + " It did.")
        assert (found.id, len(index)) == ("story", 1)
        assert index.add_if_new("again", STORY + " It did.", limit=found.distance - 1) == []
        assert index.add_if_new("elsewhere", STORY, "a scope") == []
        assert index.add_if_new("number", 5) == []
        assert ids(index.add_if_new("near", 7, k=1)) == ["number"]
        assert index.add_if_new("punctuation", "…,.") == []
        assert len(index) == 4


def test_an_index_may_be_closed_twice() -> None:
    """Closed by hand inside of ``with``, say."""
    with Index() as index:
        index.close()


def test_a_profile_of_ones_own() -> None:
    """With more tables, over the whole signature; exact search needs four."""
    article = PROFILES["article"]
    with Index(profile=replace(article, settings=replace(article.settings, tables=16), probes=32)) as index:
        index.add("story", STORY)
        assert index.search(STORY + " It did.")[0].id == "story"
        with pytest.raises(ValueError, match="needs a scheme of 4 tables"):
            index.search(STORY, k=3)


def test_a_profile_of_a_file(tmp_path: Path) -> None:
    """It is read by the package's own function, and holds for the index and for fingerprints."""
    (tmp_path / "mine.toml").write_text('from = "simhash"\n[search]\ndistance = 0\n', "utf-8")
    profile = stream_dedup.read_profile(tmp_path / "mine.toml")
    with Index(profile=profile) as index:
        index.add("cat", fingerprint(CAT, profile))
        assert [found.id for found in index.search(CAT)] == ["cat"]
        assert index.search(fingerprint(CAT) ^ 1) == []
    with pytest.raises(UserError, match="cannot be read"):
        stream_dedup.read_profile(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("profile", "arguments", "message"),
    [
        ("simhash", {"k": 12}, "distance 12: must be a whole number from 0 to 11"),
        ("simhash", {"probes": 3}, "probes 3: not used in exact search"),
        ("article", {"limit": 257}, "limit 257: must be"),
        ("article", {"probes": 0}, "probes 0: must be"),
    ],
)
def test_a_search_refuses_what_it_does_not_take(profile: str, arguments: dict[str, int], message: str) -> None:
    """The message names the argument and its range."""
    with Index(profile=profile) as index, pytest.raises(ValueError, match=message):
        index.search(CAT, **arguments)  # type: ignore[arg-type]


def test_an_unknown_profile_is_refused() -> None:
    """The message names those there are."""
    with pytest.raises(ValueError, match="profile 'blog': must be one of article, comment, simhash, or"):
        Index(profile="blog")


@pytest.mark.parametrize("profile", list(PROFILES))
def test_text_without_features_is_near_nothing(profile: str) -> None:
    """It is not kept and finds nothing; its fingerprint is 0."""
    with Index(profile=profile) as index:
        index.add("punctuation", "…,.")
        assert index.search("…,.", k=11) == []
        assert len(index) == 0
    assert fingerprint("…,.", profile) == 0


def test_a_fingerprint_has_64_bits() -> None:
    """Other numbers are refused, at once."""
    with Index() as index, pytest.raises(ValueError, match="must be 0 to"):
        index.add("big", 1 << 64)


def test_threads_fingerprint_at_once() -> None:
    """Each gets what one thread alone gets. In a process of its own: memory that two threads write ends it."""
    script = (
        "import random, sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from stream_dedup import fingerprint\n"
        "draw = random.Random(3)\n"
        "texts = [' '.join(f'w{draw.randrange(10**9)}' for _ in range(400)) for _ in range(100)]\n"
        "sys.setswitchinterval(1e-5)\n"
        "with ThreadPoolExecutor(4) as threads:\n"
        "    found = list(threads.map(fingerprint, texts * 4))\n"  # the first calls too, which load tables
        "wanted = list(map(fingerprint, texts[:5]))\n"
        "print(found == found[:100] * 4, found[:5] == wanted)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")


def test_distance_counts_differing_bits() -> None:
    """Worked: 1011101 and 1001001 differ in 2; 10101 and 00110 in 3."""
    assert distance(0b1011101, 0b1001001) == 2
    assert distance(0b10101, 0b00110) == 3


def test_names_are_imported_when_they_are_used() -> None:
    """An unknown name is an AttributeError like anywhere."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        stream_dedup.nothing  # noqa: B018


def test_a_fingerprint_loads_no_numpy_and_no_index() -> None:
    """Nor anything else than the package itself and its hash, whatever the profile; a distance neither."""
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import stream_dedup\n"
        "numbers = [stream_dedup.fingerprint('The ferry left. 渡口的船开了。', name) for name in sys.argv[1:]]\n"
        "from stream_dedup.core.profiles import Profile\n"
        "from stream_dedup.core.scheme import FingerprintSettings\n"
        "own = Profile(FingerprintSettings(markup='html'), search='exact')\n"
        "stream_dedup.distance(*map(stream_dedup.fingerprint, ('<p>The ferry left.', 'It left.'), (own, own)))\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(loaded - sys.stdlib_module_names), 'stream_dedup.api' in sys.modules)\n"
        "print(*numbers)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *PROFILES], capture_output=True, text=True, check=True)
    loaded, numbers = done.stdout.splitlines()
    assert loaded == "stream_dedup xxhash False"
    expected = [fingerprint("The ferry left. 渡口的船开了。", profile) for profile in PROFILES]
    assert [int(number) for number in numbers.split()] == expected


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_index_is_not_copied(way: Callable[[Index], object]) -> None:
    """Two of them would add what waits in one."""
    with Index() as index, pytest.raises(TypeError, match="an Index cannot be copied or pickled: share it between"):
        way(index)


def test_a_call_looks_at_nothing_that_another_thread_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks whether its folder was replaced when no other call can close the lock of the folder."""
    index, look = Index(), LogIndex.refuse_stopped
    closer = threading.Thread(target=index.close)

    def looks(one: LogIndex) -> None:
        if closer.ident is None:
            closer.start()
            closer.join(0.2)  # as long as it would take, if it did not wait for this call
        look(one)

    monkeypatch.setattr(LogIndex, "refuse_stopped", looks)
    index.add("a", 1)
    closer.join()
    with pytest.raises(ValueError, match="closed"):
        index.add("b", 2)
