"""A call that ends by an exception between two effects on an index folder: a signal's, or that of an effect."""

from pathlib import Path

import pytest

from stream_dedup.index import LogIndex
from tests.index.dying import EFFECTS, EXTRA, STEP, counting, kept
from tests.logs import SCHEME


@pytest.mark.slow
def test_an_interruption_between_any_two_effects_leaves_one_index_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `current` may name is not cleared away by the closing that follows, as what was given up is."""
    found, effects, ended = [], 0, False
    while not ended:
        effects += STEP
        path = tmp_path / str(effects)
        kept(path)
        with monkeypatch.context() as patch:
            _raise_after(patch, effects)
            ended = _ends(path)
        with LogIndex.open(path, scheme=SCHEME) as index:
            assert index.verify() == []
            found.append(index.next_offset)
        assert len(list(path.glob("data-*/committed"))) == 1
        assert len(list(path.glob("data-*/CURRENT"))) == 1
    assert found == sorted(found)
    assert set(found) == {2, 3}
    assert effects > 20


def test_what_fails_when_the_data_are_current_does_not_deny_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call has succeeded: told that it has not, its caller would do it again. The next opening does the rest."""
    kept(tmp_path)
    with LogIndex.open(tmp_path, scheme=SCHEME, staged=True) as index:
        index.apply([EXTRA])
        with monkeypatch.context() as patch:
            patch.setattr("stream_dedup.index.folder.remove_data", _failing)
            index.commit()
    assert sorted(data.name for data in tmp_path.glob("data-*")) == ["data-1", "data-2"]
    with LogIndex.open(tmp_path, scheme=SCHEME) as index:
        assert index.next_offset == 3
    assert sorted(data.name for data in tmp_path.glob("data-*")) == ["data-2"]


def _ends(path: Path) -> bool:
    """Whether a call with staged work comes to its end."""
    try:
        with LogIndex.open(path, scheme=SCHEME, staged=True) as index:
            index.apply([EXTRA])
            index.commit()
    except KeyboardInterrupt:
        return False
    return True


def _raise_after(patch: pytest.MonkeyPatch, effects: int) -> None:
    """An exception, once, after so many effects."""
    counted = counting(effects, _interrupt)
    for where, name in EFFECTS:
        patch.setattr(where, name, counted(getattr(where, name)))


def _interrupt() -> None:
    raise KeyboardInterrupt


def _failing(_data: Path) -> None:
    raise OSError(16, "Device or resource busy")
