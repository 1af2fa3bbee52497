"""Lines that nobody would write, through `filter`: one right line for each, and ordinary records judged as ever."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.amount import FULL
from tests.cli.fuzzed import SETTINGS, Fuzzer, are_judged_alike, faults
from tests.forks import forks

SEED = 20261122
LINES = 1_500 if FULL else 500


def filtered_by(flags: Sequence[str], folder: Path) -> Callable[[bytes], bytes]:
    """`filter` with these flags, as a forked process."""

    def call(content: bytes) -> bytes:
        path, out = folder / "in.jsonl", folder / "out.jsonl"
        path.write_bytes(content)
        with out.open("wb") as file:
            args = ["{}", "filter", *flags, str(path)]
            process = forks().start("tests.files.dying_filter:main", args, [0, file.fileno(), 2])
        assert process.wait(250) in {0, 3}
        return out.read_bytes()

    return call


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_line_has_one_right_answer(setting: str, tmp_path: Path) -> None:
    """Each that is not blank comes out once, in its place, as it was, with a verdict; none changes another's."""
    lines = list(Fuzzer(SEED).lines(LINES))
    assert list(faults(lines, filtered_by(SETTINGS[setting], tmp_path)(b"\n".join(lines)))) == []
    assert are_judged_alike(lines, filtered_by([*SETTINGS[setting]], tmp_path))


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
