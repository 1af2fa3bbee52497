"""Tricks of spam, each undone by itself."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.spam import shorten_repeats, undo_lookalikes, unspace


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("加 微 信 号 领红包", "加微信号 领红包"),
        ("w.e.i.x.i.n", "weixin"),
        ("微★信★号", "微信号"),
        ("s u b s c r i b e to me", "subscribe to me"),
        ("1 3 8 0 0", "13800"),
        ("微 ~ 信 ~ 号", "微信号"),
        ("e.g. my cat", "e.g. my cat"),
        ("微 ---- 信 ---- 号", "微 ---- 信 ---- 号"),
        ("กิ นิ ทิ", "กิ นิ ทิ"),
        ("中文 的 句子 和 词", "中文 的 句子 和 词"),
        ("", ""),
    ],
)
def test_unspace(text: str, expected: str) -> None:
    """Three and more single characters with little between them; words and other scripts' marks are left alone."""
    assert unspace(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("哈哈哈哈哈", "哈哈"),
        ("好!!!!!!", "好!!"),
        ("sooooo good", "soo good"),
        ("看看 book 10000 a  b", "看看 book 10000 a  b"),
        ("👍👍👍👍", "👍👍"),
    ],
)
def test_shorten_repeats(text: str, expected: str) -> None:
    """Two of a repeated letter or sign stay; numbers and spaces are not shortened."""
    assert shorten_repeats(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("w\u0435ix\u0456n", "weixin"),
        ("привет москва", "привет москва"),
        ("γειά σου", "γειά σου"),
        ("fr\u03b5\u03b5", "free"),
        ("\u0440007x x007\u0440 привет x", "p007x x007p привет x"),
        ("fr3e c@sh hel1o", "free cash hello"),
        ("subscr1be g1ft f1ll hel1o emai1", "subscribe gift fill hello email"),
        ("f0ll0w l00k t0 vide0 fu11y", "follow look to video fully"),
        ("win10 3d mp4 b2b 4k v1 q1 covid19 h264 100k 1st", "win10 3d mp4 b2b 4k v1 q1 covid19 h264 100k 1st"),
        ("138oo138ool 13o8oo13", "13800138001 13080013"),
        ("cool 100l", "cool 100l"),
        ("🅰🅱 ❶⓿ ⓫ 🅥", "ab 10 11 v"),
    ],
)
def test_undo_lookalikes(text: str, expected: str) -> None:
    """Only in words of mixed scripts, between letters and behind them, and in long numbers; the rest stays."""
    assert undo_lookalikes(text) == expected


@given(st.text(st.sampled_from("a1。. 中е3@o哈\u0e31👍"), max_size=40))
def test_the_second_time_changes_nothing_more_than_it_must(text: str) -> None:
    """Text that was joined or shortened is not joined or shortened again."""
    assert shorten_repeats(shorten_repeats(text)) == shorten_repeats(text)
    assert unspace(unspace(text)) == unspace(text)


@pytest.mark.parametrize("piece", ["a ", "哈", "a.", "a-", "o1", "1", "е", "a3", "\u0e01 "])
@pytest.mark.parametrize("step", [unspace, shorten_repeats, undo_lookalikes])
def test_no_text_takes_quadratic_time(step: object, piece: str) -> None:
    """Half a megabyte of anything that a pattern begins with takes seconds at most."""
    assert callable(step)
    start = time.process_time()
    step(piece * (500_000 // len(piece)))
    assert time.process_time() - start < 10
