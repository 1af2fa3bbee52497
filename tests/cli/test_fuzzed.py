"""Lines that nobody would write, through `filter`: one right line for each, and ordinary records judged as ever."""

import json

import pytest

from tests.amount import FULL
from tests.cli.fuzzed import SETTINGS, Fuzzer, are_judged_alike, faults, filtered_by

SEED = 20261122
LINES = 1_500 if FULL else 500


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_line_has_one_right_answer(setting: str) -> None:
    """Each that is not blank comes out once, in its place, as it was, with a verdict; none changes another's."""
    lines = list(Fuzzer(SEED).lines(LINES))
    filtered = filtered_by(SETTINGS[setting])
    assert list(faults(lines, filtered(b"\n".join(lines)))) == []
    assert are_judged_alike(lines, filtered)


RECORD = b'{"id":1,"text":"the ferry runs"}'
ANSWER = RECORD[:-1] + b',"dedup":{"verdict":"unique","fingerprint":"0000000000000000"}}\n'
REJECTED = b'{"dedup":{"verdict":"rejected","reason":"invalid JSON","line":"bad"}}\n'


@pytest.mark.parametrize(
    ("lines", "out"),
    [
        ([RECORD], b""),
        ([RECORD], ANSWER[:-1]),
        ([RECORD], ANSWER * 2),
        ([RECORD, b"bad"], REJECTED + ANSWER),
        ([RECORD], ANSWER.replace(b"ferry", b"fairy")),
        ([RECORD], ANSWER.replace(b"unique", b"duplicate")),
        ([b"bad"], REJECTED.replace(b"bad", b"dab")),
        ([b" \x0b", b"bad"], REJECTED * 2),
        ([b'{"dedup":1,"text":"x"}'], b'{"dedup":1,"text":"x","dedup":{"verdict":"unique","fingerprint":"0"}}\n'),
    ],
)
def test_what_is_wrong_is_found(lines: list[bytes], out: bytes) -> None:
    """Lost, doubled, swapped and changed lines, a verdict without its match: the check can fail."""
    assert list(faults(lines, out))


def test_what_is_right_is_not_found() -> None:
    """A record, one with a `dedup` of its own, a line that is no record, and blank lines."""
    lines = [RECORD, b"", b" \t", b'{"id" : 1 , "dedup":[1],"text":"the ferry runs"}', b"bad"]
    second = b'{"id" : 1,"text":"the ferry runs","dedup":{"verdict":"unique","fingerprint":"0"}}\n'
    assert list(faults(lines, ANSWER + second + REJECTED)) == []
    assert json.loads(ANSWER)
