"""Texts for the benchmarks: real articles where ``STREAM_DEDUP_DATA`` names a folder of them, made ones elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

SEED = 20261121
SENTENCES = (
    "城市地铁新线路今天上午正式开通运营，沿线居民的出行时间缩短了将近一半。",
    "气象部门预计周末将有一次大范围降雨过程，提醒市民注意防范。",
    "研究人员在深海发现了一种会发光的小型水母，样本已经送往实验室。",
    "市场分析认为新能源汽车的销量还会继续增长，但增速可能放缓。",
    "学校图书馆延长了开放时间，方便学生在考试前复习功课。",
    "老街改造保留了百年茶馆和手工竹编的店铺，游客络绎不绝。",
    "医生建议久坐的人每隔一小时起身活动几分钟，多喝水少熬夜。",
    "Engineers traced the outage to a mislabelled power cable in the basement.",
    "The museum reopens with paintings that were never shown before.",
)
VALUES, SHINGLE = 128, 5
"""Of a MinHash, a peer: the number of its values, and the characters of a shingle."""
_PROSE = re.compile("[\u4e00-\u9fd5，。、；：？！“”（）]")
PROSE_SHARE, PROSE_CHARACTERS = 0.8, 30
"""Least share of ideographs and their signs in a paragraph of prose, and its least characters."""


def articles(limit: int) -> list[str]:
    """Texts, ``limit`` of them; where there are fewer, halves of them chosen at random line by line follow."""
    folder = os.environ.get("STREAM_DEDUP_DATA")
    rng = random.Random(SEED)
    real = _read(Path(folder) / "zh_articles.jsonl.gz") if folder else [_made(rng) for _ in range(2_000)]
    texts = real[:limit]
    while len(texts) < limit:
        lines = real[len(texts) % len(real)].splitlines()
        texts.append("\n".join(rng.sample(lines, -(-len(lines) // 2))))
    return texts


def comments(limit: int) -> list[str]:
    """Comments, ``limit`` of them; where there are fewer, some with one character in six changed follow."""
    folder = os.environ.get("STREAM_DEDUP_DATA")
    rng = random.Random(SEED)
    real = _read(Path(folder) / "zh_comments.jsonl.gz") if folder else [_comment(rng) for _ in range(25_000)]
    texts = real[:limit]
    while len(texts) < limit:
        text = list(real[len(texts) % len(real)])
        for at in rng.sample(range(len(text)), -(-len(text) // 6)):
            text[at] = rng.choice(rng.choice(real))
        if not "".join(text).isspace():  # rejected as empty
            texts.append("".join(text))
    return texts


def paragraphs() -> list[str]:
    """Paragraphs of the articles that are prose, as news are, no two equal: neither code nor headings nor English."""
    every = (line for text in articles(3_000) for line in text.splitlines() if len(line) >= PROSE_CHARACTERS)
    return [line for line in dict.fromkeys(every) if len(_PROSE.findall(line)) >= PROSE_SHARE * len(line)]


def passages(pieces: Sequence[str], characters: int, limit: int, between: str = "\n") -> list[str]:
    """Texts of exactly so many characters, ``limit`` of them, each from other pieces while these last."""
    texts: list[str] = []
    at = 0
    while len(texts) < limit:
        parts, size = [], 0
        while size < characters:
            parts.append(pieces[at % len(pieces)])
            size += len(parts[-1]) + len(between)
            at += 1
        texts.append(between.join(parts)[:characters])
    return texts


def news(characters: int, limit: int) -> list[str]:
    """Chinese texts of prose of so many characters."""
    return passages(paragraphs(), characters, limit)


def english_articles(limit: int) -> list[str]:
    """English texts, ``limit`` of them, of some 7 kB; made ones of 7,000 characters without STREAM_DEDUP_DATA."""
    folder = os.environ.get("STREAM_DEDUP_DATA")
    if folder is None:
        rng = random.Random(SEED)
        made = [f"{rng.choice(SENTENCES[-2:])} It was number {rng.randrange(10**6)}." for _ in range(10_000)]
        return passages(made, 7_000, limit, " ")
    real = _read(Path(folder) / "en_revision_pairs.jsonl.gz", "new")
    return [real[number % len(real)] for number in range(limit)]


def comments_about(mean: int, limit: int) -> list[str]:
    """Comments of half of so many characters and more, ``limit`` of them; those too long for this mean are left out."""
    some = sorted((text for text in comments(25_000) if 2 * len(text) >= mean), key=len)
    total = 0
    for count, text in enumerate(some, 1):
        total += len(text)
        if total > mean * count:
            some = some[:count]
            break
    return random.Random(SEED).choices(some, k=limit)


def shingles(text: str) -> list[str]:
    """Every five neighbouring characters."""
    return [text[at : at + SHINGLE] for at in range(max(1, len(text) - SHINGLE + 1))]


def as_json(number: int, text: str) -> bytes:
    """Record value of one article."""
    return json.dumps({"id": f"a{number}", "text": text}, ensure_ascii=False).encode()


def described() -> str:
    """Where the texts come from, for the head of a table."""
    return "articles of STREAM_DEDUP_DATA" if os.environ.get("STREAM_DEDUP_DATA") else "made texts"


def _read(path: Path, field: str = "text") -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)[field] for line in lines]


def _comment(rng: random.Random) -> str:
    letters = "".join(SENTENCES)
    return "".join(rng.choices(letters, k=rng.randrange(20, 100)))


def _made(rng: random.Random) -> str:
    return "\n".join(rng.choice(SENTENCES) + str(rng.randrange(1000)) for _ in range(60))
