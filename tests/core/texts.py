"""Texts that the tests of the core run on.

Real ones from the folder that STREAM_DEDUP_DATA names; where it is not set, the sample below, of our own writing.
"""

import functools
import gzip
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

SAMPLE = (
    "今天下午，图书馆在二楼阅览室举办了一场关于古籍修复的讲座，来的人比预想的多，后排只好站着听。",
    "修复师说：一页旧纸要先除尘、再清洗，补洞用的纸浆颜色要调三遍；“急不得”，他笑着重复了两次。",
    "昨夜的大风吹倒了城南三棵老槐树，园林工人清晨五点就到了现场，七点前道路恢复通行。",
    "我们把数据库从 PostgreSQL 14 升级到 16，停机时间不到 90 秒；回滚方案写在 README.md 里，没有用上。",
    "番茄炒蛋的关键是火候：鸡蛋先下锅，七成熟盛出来，番茄炒出汁以后再倒回去，糖只要一点点。",
    "这款耳机戴久了耳朵疼，降噪倒是不错，客服回复也快，给四星吧！！！",
    "哈哈哈哈哈哈笑死我了，这个弹幕太有才了，前方高能，前方高能，前方高能预警",
    "加微信ａｂｃ１２３领红包，先到先得，戳→http://example.com/hb?id=42",
    "The river froze early that year, and the ferry stayed tied to the pier until the middle of March.",
    "Our tests ran twice as fast after we stopped starting a new process for every single file.",
    "He wrote the letter, read it once, tore it up, and wrote it again without changing a word.",
    "Caf\u00e9s in Z\u00fcrich open at 7; na\u00efve visitors arrive at 6:30 & wait \u2014 every day.",
    "🍎🍐🍊 水果大促销 🎉🎉 全场 5 折，Ａpple 也打折 😀",
    "第一章　总则\n\n第一条　为了规范管理，制定本办法。\n第二条　本办法自发布之日起施行。",
    "价目表：苹果 3.5 元/斤，梨 4.2 元/斤，葡萄 12 元/斤（会员 9 折）。",
    "繁體中文也能處理：臺灣的夜市人來人往，小籠包與珍珠奶茶最受歡迎。",
    "日本語の文章です。カタカナとひらがな、漢字が混ざっています。",
    "한국어 문장도 하나 있습니다. Привет, мир! Γειά σου Κόσμε.",
    "好",
    "。。。！？",
)

_STORY = (
    "市图书馆改造后上周末重新开放，馆内新设了儿童阅览区和安静自习区，读者可以用手机预约座位。",
    "馆长介绍说，这次改造历时十四个月，书架总长度增加了三分之一，馆藏达到八十万册，其中地方文献一万二千册。",
    "改造之前，这座建于上世纪八十年代的建筑屋顶漏水，冬季供暖不足，电梯也经常停运，老年读者很不方便。",
    "新馆的屋顶铺设了太阳能板，每年可发电十五万度，足够照明和空调使用，余下的电卖给电网。",
    "周六上午，二百多名市民排队入馆，一位带着孙女的退休教师说，他从小就在这里看书，现在终于又能回来了。",
    "图书馆还与附近六所中小学签订了协议，学生凭校园卡借书，每人每次最多可借十册，期限为一个月。",
    "从下月起，每周三晚上将举办作家讲座，首场邀请的是本地作家，主题是运河两岸的旧时光，报名已经开始。",
)
STORY = "\n".join(_STORY)
"""An article of more than 300 characters."""
TRADITIONAL_STORY = (
    "市圖書館改造後上週末重新開放，館內新設了兒童閱覽區和安靜自習區，讀者可以用手機預約座位。\n"
    "館長介紹說，這次改造歷時十四個月，書架總長度增加了三分之一，館藏達到八十萬冊，其中地方文獻一萬二千冊。\n"
    "改造之前，這座建於上世紀八十年代的建築屋頂漏水，冬季供暖不足，電梯也經常停運，老年讀者很不方便。\n"
    "新館的屋頂鋪設了太陽能板，每年可發電十五萬度，足夠照明和空調使用，餘下的電賣給電網。\n"
    "週六上午，二百多名市民排隊入館，一位帶著孫女的退休教師說，他從小就在這裡看書，現在終於又能回來了。\n"
    "圖書館還與附近六所中小學簽訂了協議，學生憑校園卡借書，每人每次最多可借十冊，期限為一個月。\n"
    "從下月起，每週三晚上將舉辦作家講座，首場邀請的是本地作家，主題是運河兩岸的舊時光，報名已經開始。"
)
ENGLISH_STORY = (
    "The river flooded the lower town on Tuesday night after three days of heavy rain, and about four hundred people "
    "spent the night in the sports hall. Firefighters pumped water from cellars until dawn, while volunteers filled "
    "sandbags along the old mill and the railway bridge.\nThe mayor thanked the helpers and said that the new flood "
    "gates, finished only last autumn, had prevented much worse damage. Schools will stay closed until Monday."
)
JAPANESE_STORY = (
    "市立図書館は改修工事を終え、先週の土曜日に再び開館しました。新しく子どものための読書室と静かな自習室が設けられ、"
    "座席はスマートフォンから予約できます。館長によると、工事には十四か月かかり、本棚の長さは三分の一ほど増えました。"
    "屋根には太陽光パネルが取り付けられ、照明と空調に使う電気をまかなうことができるそうです。開館の日の朝には二百人を"
    "超える人が列を作り、孫を連れた元教師の男性は「子どものころからここで本を読んできました。また戻ってこられて本当に"
    "うれしい」と話していました。来月からは毎週水曜日の夜に作家の講演会が開かれる予定で、最初の回は地元の作家が運河の"
    "町の思い出について語ります。申し込みはすでに始まっています。"
)
MORE = (
    STORY,
    TRADITIONAL_STORY,
    ENGLISH_STORY,
    JAPANESE_STORY,
    "\n".join(f"<p>{line}</p>" for line in _STORY) + '<p>来源：<a href="https://example.com/n/1">例报</a></p>',
    "# 更新说明\n"
    + STORY
    + "\n下载：[这里](https://example.com/dl?id=7) 或者 www.example.org/a，问题请写信给 help@example.com",
    "ห้องสมุดประชาชนเปิดให้บริการอีกครั้งเมื่อวันเสาร์ที่ผ่านมา ผู้อ่านสามารถจองที่นั่งผ่านโทรศัพท์มือถือได้",
    "पुस्तकालय शनिवार को फिर से खुल गया और पाठक मोबाइल फ़ोन से सीट बुक कर सकते हैं",
    "加 微 信 号 领 红 包，先 到 先 得！！！！",
    "加★微★信★号★领★红★包，先到先得",
    "w.e.i.x.i.n: ａｂｃ①②③ 快来快来快来",
    "subsсribe to my сhannel fоr free g1ft cards",
    "\u200b加\u200b微\u200b信\u200b领红包，哈哈哈哈哈哈哈哈，你懂的",
    "回复@张三：说得对，我也这么觉得，@李四 你来看看 http://t.cn/abc",
    "👍🏽👍🏽👍🏽❤️❤️❤️😀😀😀😀",
    "⎛⎝≥⏝⏝≤⎠⎞ ⎛⎝≥⏝⏝≤⎠⎞",
    "谢谢",
    "",
    STORY + "\n开馆日期：2026-05-08，共 3 层，阅览座位 1,280 个，咨询电话 0571-5550142，7 月起延长到 21:30 闭馆。",
)
"""What the profiles treat each in their own way; none of it in ``SAMPLE``, whose golden values are older."""

FIELDS = ("text", "old", "new", "a", "b")


def data_files() -> list[Path]:
    """The files of real text, none where STREAM_DEDUP_DATA is not set."""
    folder = os.environ.get("STREAM_DEDUP_DATA")
    files = sorted(Path(folder).glob("*.jsonl.gz")) if folder else []
    assert files or not folder, f"STREAM_DEDUP_DATA={folder} holds no *.jsonl.gz"
    return files


def texts_of(file: Path) -> Iterator[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield from (row[field] for field in FIELDS if field in row)


@functools.cache
def all_texts() -> tuple[str, ...]:
    """Every text there is."""
    return tuple(text for file in data_files() for text in texts_of(file)) or SAMPLE


def some_texts(limit: int) -> Sequence[str]:
    """As many of them, from every file alike."""
    texts = all_texts()
    return texts[:: max(1, len(texts) // limit)]
