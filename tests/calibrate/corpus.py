"""Small corpora of own writing: articles, edited copies of them, and short notes."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLACES = (
    "渡口",
    "旧桥",
    "灯塔",
    "果园",
    "车站",
    "集市",
    "磨坊",
    "港口",
    "山寺",
    "学校",
    "河堤",
    "邮局",
    "茶馆",
    "窑厂",
    "林场",
)
PEOPLE = (
    "船工",
    "老师",
    "木匠",
    "医生",
    "渔夫",
    "店主",
    "农户",
    "画家",
    "司机",
    "厨师",
    "牧人",
    "裁缝",
    "石匠",
    "药师",
)
DEEDS = (
    "修好了漏雨的屋顶",
    "把账本重新抄了一遍",
    "在门口种下两棵柿子树",
    "数清了仓库里的麻袋",
    "给来往的人煮了一锅姜汤",
    "把去年的渔网补了又补",
    "带着孩子们认了一路的草药",
    "用旧木料做了一张长桌",
    "在墙上画出了涨水的高度",
    "把钟的快慢调准了七分钟",
    "等到最后一班船靠了岸",
    "清点了入冬要用的柴火",
)
TIMES = ("清早", "正午", "傍晚", "入夜", "雨停以后", "起雾之前", "第三天", "收工时", "开春那天", "霜降前后")


def sentence(chance: random.Random) -> str:
    return (
        f"{chance.choice(TIMES)}，{chance.choice(PLACES)}的{chance.choice(PEOPLE)}{chance.choice(DEEDS)}，"
        f"{chance.choice(PLACES)}那边的{chance.choice(PEOPLE)}看了{chance.randrange(2, 90)}遍。"
    )


def article(chance: random.Random, sentences: int = 16) -> list[str]:
    return [sentence(chance) for _ in range(sentences)]


def edited(chance: random.Random, original: list[str], changes: int) -> list[str]:
    copy = list(original)
    for at in chance.sample(range(len(copy)), min(changes, len(copy))):
        copy[at] = sentence(chance)
    return copy


def records(seed: int, count: int, *, sentences: int = 16) -> Iterator[dict[str, Any]]:
    """Every second one is an edited copy of an earlier one, some of them copies of copies; ``copy_of`` says so."""
    chance = random.Random(seed)
    known: list[list[str]] = []
    for number in range(count):
        if number % 2 and known:
            source = chance.randrange(len(known))
            whole = edited(chance, known[source], chance.randrange(sentences))
            original = f"a{source}"
        else:
            whole, original = article(chance, sentences), None
        known.append(whole)
        yield {"id": f"a{number}", "text": "\n".join(whole), "copy_of": original}


def write(path: Path, rows: Iterator[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path
