"""A stream like a real one: articles, their revisions, identical re-posts close together, broken records.

Real text from the folder named by ``STREAM_DEDUP_DATA``; where that is not set, texts put together from
a list of sentences, so that the same tests run anywhere.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

SENTENCES = (
    "城市地铁新线路今天上午正式开通运营",
    "沿线居民表示出行时间缩短了将近一半",
    "运营方提醒乘客高峰时段错峰出行并注意安全",
    "气象部门预计周末将有一次大范围降雨过程",
    "研究人员在深海发现了一种会发光的小型水母",
    "市场分析认为新能源汽车的销量还会继续增长",
    "学校图书馆延长了开放时间方便学生复习考试",
    "老街改造保留了百年茶馆和手工竹编的店铺",
    "医生建议久坐的人每隔一小时起身活动几分钟",
    "球队在加时赛中凭借一记远射赢得了比赛",
    "The council approved the new bridge after a long debate",
    "Farmers along the river report an early harvest this year",
    "Engineers traced the outage to a mislabelled power cable",
    "The museum reopens with paintings that were never shown before",
    "Volunteers planted two thousand trees along the northern road",
)
BROKEN: tuple[bytes | None, ...] = (
    b"",
    b"{not json",
    b'{"id": "no-text"}',
    b'{"id": "empty", "text": "   "}',
    b'\xff\xfe{"text": 1}',
    b"[1, 2]",
    None,
)
ONE_BROKEN_IN = 40
REPOST_IN = 6
"""One article in so many is posted again, at most ``NEAR`` records later."""
NEAR = 12


def texts(limit: int, seed: int) -> Iterator[tuple[str, str]]:
    """Ids and texts, ``limit`` of them at most: articles, with revisions' old and new versions among them."""
    folder = os.environ.get("STREAM_DEDUP_DATA")
    return _real(Path(folder), limit) if folder else _made(limit, random.Random(seed))


def records(limit: int, seed: int) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of a stream of at least ``limit`` articles."""
    rng = random.Random(seed)
    stream: list[tuple[bytes, bytes | None]] = []
    for name, text in texts(limit, seed):
        record = (name.encode(), json.dumps({"id": name, "text": text}, ensure_ascii=False).encode())
        stream.append(record)
        if rng.randrange(REPOST_IN) == 0:
            again = json.dumps({"id": f"{name}-again", "text": text}, ensure_ascii=False).encode()
            stream.insert(max(0, len(stream) - rng.randrange(NEAR)), (f"{name}-again".encode(), again))
        if rng.randrange(ONE_BROKEN_IN) == 0:
            stream.append((b"broken", rng.choice(BROKEN)))
    return stream


def _real(folder: Path, limit: int) -> Iterator[tuple[str, str]]:
    articles = ((row["id"], row["text"]) for row in _rows(folder / "zh_articles.jsonl.gz"))
    pairs = (
        (f"{row['pair_id']}-{version}", row[version])
        for name in ("zh_revision_pairs.jsonl.gz", "en_revision_pairs.jsonl.gz")
        for row in _rows(folder / name)
        for version in ("old", "new")
    )
    yield from islice(_woven(articles, pairs), limit)


def _woven(first: Iterator[tuple[str, str]], second: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Two of the first, one of the second, and so on to the end of both."""
    done = object()
    streams = [first, first, second]
    while streams:
        for stream in list(streams):
            item = next(stream, done)
            if item is done:
                streams = [other for other in streams if other is not stream]
                break
            yield item  # type: ignore[misc] # not the mark of the end


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _made(limit: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    for number in range(limit):
        chosen = [rng.choice(SENTENCES) + str(rng.randrange(50)) for _ in range(12)]
        yield f"made-{number}", "。".join(chosen)
        if number % 4 == 0:
            yield f"made-{number}-edited", "。".join([*chosen[:-1], "记者整理"])
