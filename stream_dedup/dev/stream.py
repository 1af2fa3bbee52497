"""An endless sample stream: articles that nobody wrote before, stories that others take over, campaigns of spam.

The texts are made of sentences with slots, in Chinese and English. A story is copied for some minutes, more often at
first, with the edits that newsrooms make; a campaign repeats one comment with small changes. Now and then a page is
crawled again, or a record cannot be read. A seed makes the stream repeatable; time is not its business.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

OUTLETS = ("gazette", "courier", "harbour-post", "morning-wire", "chenbao", "wanbao", "dushi", "jiangcheng")
STORIES_AT_ONCE = 5
CAMPAIGNS_AT_ONCE = 2
CRAWLED_BEFORE = 50
"""The articles of the last so many that may be crawled again."""
SENTENCES = 7

_WAYS = ("unique", "story", "spam", "comment", "recrawl", "broken")
_SHARES = (46, 32, 11, 7, 3, 1)

_ENGLISH = (
    "The {place} council voted {number} to {few} on {day} to {plan}, after {few} hours of debate.",
    "{person} said that {thing} would {change} by {number} percent before {month}.",
    "Engineers found {problem} in the {object} near {place}, and closed it for {few} days.",
    "The new {object} cost {number} million, half of it paid by {payer}.",
    "Visitors to {place} rose to {number} thousand in {month}, more than in any year since {year}.",
    "In {place}, {person} keeps {few} {animal} and sells {food} at the {day} market.",
    "A study of {number} {people} links {thing} to {effect}, though {person} calls the sample small.",
    "Farmers around {place} expect a {adjective} harvest of {food} after {weather} in {month}.",
    "The {object} was built in {year}; since then {payer} has repaired it {few} times.",
    "{payer} will hire {number} {people} in {place}, most of them for {thing}.",
    "Police in {place} are looking for {few} {people} who took {number} {food} crates from a depot on {day}.",
    "Trains between {place} and {other} will take {number} minutes from {month} on, {few} fewer than today.",
    "{person}, who has studied {animal} for {number} years, counted {few} nests under the {object}.",
    "The school in {place} teaches {thing} on {day}; {number} children have joined since {month}.",
    "Rain fell for {few} days in {place}, and the river stood {number} centimetres above its mark of {year}.",
    "At the {place} museum a show of {number} {object} models opens on {day}.",
    "Prices of {food} fell by {number} percent in {other}, while {place} saw {adjective} demand.",
    "{person} won the {place} marathon in spite of {weather}, {few} seconds ahead of a runner from {other}.",
)
_CHINESE = (
    "{place}市{month}投票通过了{plan}的方案，{number}名代表中只有{few}人反对。",
    "{person}表示，{thing}的费用到{month}将{change}百分之{number}。",
    "工程师在{place}附近的{object}里发现了{problem}，{day}起封闭{few}天检修。",
    "新建的{object}耗资{number}百万元，其中一半由{payer}承担。",
    "{month}到{place}的游客达到{number}万人次，是{year}年以来最多的一次。",
    "{person}在{place}养了{few}只{animal}，每逢{day}到集市上卖{food}。",
    "一项对{number}名{people}的调查把{thing}与{effect}联系在一起，{person}认为样本还太小。",
    "受{month}{weather}的影响，{place}一带的{food}预计{adjective}。",
    "这座{object}建于{year}年，此后{payer}先后修缮过{few}次。",
    "{payer}计划在{place}招收{number}名{people}，大多从事{thing}方面的工作。",
    "从{month}起，{place}到{other}的列车只需{number}分钟，比现在少{few}分钟。",
    "研究{animal}已有{number}年的{person}在{object}下面数到了{few}个巢。",
    "{place}的一所小学每逢{day}开设{thing}课，已有{number}名学生报名。",
    "{place}连续{few}天降雨，河水比{year}年的标记高出{number}厘米。",
    "{place}博物馆将在{day}展出{number}件{object}模型，观众可以免费入场。",
    "{other}的{food}价格下降了百分之{number}，而{place}的需求{adjective}。",
    "{person}顶着{weather}跑完了{place}马拉松，比来自{other}的选手快{few}秒。",
    "{place}的老街改造进入第{few}期，{payer}承诺保留{number}间店铺。",
)
_SLOTS_ENGLISH = {
    "place": "Norwick,Sandholm,Ely Bridge,Port Calder,Westerfield,Kings Quay,Marlow Hill,Tern Bay,Old Harbour,Ashby",
    "other": "Brackwater,Linden,Stonecross,Upper Vale,Fairhaven,Coldstream,Redmoor,Hazel Point",
    "person": "Marta Lind,Owen Price,Dr Sato,Inez Calvo,Peter Hahn,Ruth Abara,Tom Wexford,Lena Moss,Yusuf Karim",
    "thing": "night work,river water,solar heating,bus fares,winter swimming,old maps,bookkeeping,beekeeping,rowing",
    "plan": "rebuild the pier,close the old mill,plant two avenues,widen the canal,buy the quarry,light the park",
    "change": "rise,fall,drop,climb,grow,shrink",
    "problem": "a crack,rust,a leak,loose bolts,a swarm of bees,water damage",
    "object": "bridge,lighthouse,tram,reservoir,signal box,crane,ferry,tower,weir,observatory",
    "payer": "the county,a foundation,the port,the railway,a cooperative,the university",
    "people": "nurses,drivers,pupils,welders,anglers,clerks,gardeners,divers",
    "animal": "goats,herons,otters,swifts,geese,bats",
    "food": "apples,rye bread,oysters,honey,barley,pears,smoked eel",
    "effect": "better sleep,fewer colds,late trains,lower bills,longer walks,sore knees",
    "adjective": "good,poor,late,record,modest,uneven",
    "weather": "hail,fog,a dry spell,early frost,three storms,a mild spell",
    "day": "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
    "month": "January,March,April,June,August,September,November",
}
_SLOTS_CHINESE = {
    "place": "临江,青石,南渡,望海,白鹭洲,云台,双桥,柳林,东湖,长亭",
    "other": "北原,石门,清河,丰谷,梅岭,沙洲,金井,海口镇",
    "person": "陈立民,周晓岚,老孙,林教授,马春生,何雨,方志远,许阿姨,吴站长",
    "thing": "夜间公交,太阳能供暖,古籍修复,冬泳,养蜂,河水治理,社区食堂,划艇,木工",
    "plan": "重修码头,搬迁旧粮仓,拓宽运河,新种两条林荫道,改造老电厂,给公园装灯",
    "change": "上升,下降,增加,减少",
    "problem": "裂缝,锈蚀,渗水,松动的螺栓,一窝马蜂,鼠洞",
    "object": "石桥,灯塔,水塔,渡船,信号楼,水闸,天文台,吊车,索道",
    "payer": "市财政,一家基金会,港务局,铁路公司,合作社,大学",
    "people": "护士,司机,学生,焊工,钓鱼爱好者,园丁,潜水员",
    "animal": "山羊,白鹭,水獭,雨燕,大雁,蝙蝠",
    "food": "苹果,黑麦面包,牡蛎,蜂蜜,大麦,梨,熏鱼",
    "effect": "更好的睡眠,更少的感冒,列车晚点,更低的账单,膝盖酸痛",
    "adjective": "旺盛,不足,推迟,创下新高,平平,参差不齐",
    "weather": "冰雹,大雾,干旱,早霜,三场台风,回暖",
    "day": "周一,周二,周三,周四,周五,周六,周日",
    "month": "一月,三月,四月,六月,八月,九月,十一月",
}
_SPAM = (
    "兼职刷单日结{number}元，不收押金，在家就能做，名额有限，加微信号 {code} 马上开始赚钱！",
    "低息贷款当天放款，无需抵押，最高{number}万，联系 {code} 马上到账，错过再等一年！",
    "Earn {number} dollars a day from home, no skills needed, write to {code} now before the places are gone!",
    "Cheap watches, real leather, {number} percent off this week only, order at {code} and pay later!",
)
_COMMENTS = (
    "{place}我去年也去过，{food}真的不错，就是人多。",
    "写得真好，{person}的那段看得我眼眶都热了。",
    "My grandfather worked on the {object} in {place}; thank you for writing about it.",
    "I doubt the figure of {number}. Has anybody asked {person}?",
    "希望{object}早点修好，每天绕路{few}公里太累了。",
)


class SampleRecord(NamedTuple):
    """A record of the stream."""

    key: str
    value: bytes
    way: str
    """What it is: one of ``_WAYS``."""


@dataclass(slots=True)
class _Story:
    sentences: list[str]
    is_chinese: bool
    left: int
    """Copies to come."""
    copies: int = field(default=0)


class SampleStream:
    """Makes the records, one after the other."""

    def __init__(self, seed: int = 0) -> None:
        """Begin the stream of this seed."""
        self._random = random.Random(seed)  # noqa: S311 - sample texts
        self._number = 10_000
        self._stories: list[_Story] = []
        self._campaigns: list[_Story] = []
        self._crawled: list[tuple[str, list[str], bool]] = []

    def __iter__(self) -> Iterator[SampleRecord]:
        while True:
            yield self._next()

    def _next(self) -> SampleRecord:
        way = self._random.choices(_WAYS, _SHARES)[0]
        make = {"story": self._copied, "spam": self._spam, "recrawl": self._recrawled, "broken": self._broken}
        if way == "comment":
            return self._record(way, self._new_id("comment"), self._filled(self._random.choice(_COMMENTS)))
        return make.get(way, self._unique)()

    def _unique(self) -> SampleRecord:
        is_chinese = self._random.random() < 0.6  # noqa: PLR2004 - three in five
        sentences, key = self._sentences(is_chinese=is_chinese), self._new_id(self._random.choice(OUTLETS))
        self._crawled = [*self._crawled[1 - CRAWLED_BEFORE :], (key, sentences, is_chinese)]
        return self._record("unique", key, _joined(sentences, is_chinese=is_chinese))

    def _copied(self) -> SampleRecord:
        """Publish a story once more, edited as another newsroom does it; the first time as it was written."""
        while len(self._stories) < STORIES_AT_ONCE:
            is_chinese = self._random.random() < 0.6  # noqa: PLR2004 - three in five
            sentences = self._sentences(is_chinese=is_chinese, count=SENTENCES + 3)
            self._stories.append(_Story(sentences, is_chinese, self._random.randint(6, 90)))
        story = self._random.choices(self._stories, [one.left for one in self._stories])[0]
        sentences = list(story.sentences) if story.copies == 0 else self._edited(story)
        story.copies += 1
        story.left -= 1
        self._stories = [one for one in self._stories if one.left]
        text = _joined(sentences, is_chinese=story.is_chinese)
        return self._record("story", self._new_id(self._random.choice(OUTLETS)), text)

    def _edited(self, story: _Story) -> list[str]:
        sentences = list(story.sentences)
        edits = self._random.sample(("drop", "swap", "reword", "credit", "none"), 2)
        if "drop" in edits:
            del sentences[self._random.randrange(1, len(sentences))]
        if "swap" in edits:
            at = self._random.randrange(1, len(sentences) - 1)
            sentences[at], sentences[at + 1] = sentences[at + 1], sentences[at]
        if "reword" in edits:
            at = self._random.randrange(len(sentences))
            sentences[at] = self._sentences(is_chinese=story.is_chinese, count=1)[0]
        if "credit" in edits:
            outlet = self._random.choice(OUTLETS)
            sentences.append(f"（来源：{outlet}）" if story.is_chinese else f"First published by the {outlet}.")
        return sentences

    def _spam(self) -> SampleRecord:
        while len(self._campaigns) < CAMPAIGNS_AT_ONCE:
            code = f"{self._random.choice('dkxz')}{self._random.choice('jqvw')}{self._random.randint(1000, 9999)}"
            text = self._filled(self._random.choice(_SPAM).replace("{code}", code))
            self._campaigns.append(_Story([text], is_chinese=True, left=self._random.randint(10, 60)))
        campaign = self._random.choice(self._campaigns)
        campaign.left -= 1
        self._campaigns = [one for one in self._campaigns if one.left]
        text = campaign.sentences[0]
        change = self._random.choice(("none", "spaces", "marks", "tail"))
        if change == "spaces":
            text = text.replace("，", "， ").replace(", ", " , ")
        elif change == "marks":
            text = text.replace("！", "！！！").replace("!", "!!!")
        elif change == "tail":
            text += self._random.choice((" 速来", " 顶", " up", " pls"))
        return self._record("spam", self._new_id("comment"), text)

    def _recrawled(self) -> SampleRecord:
        if not self._crawled:
            return self._unique()
        key, sentences, is_chinese = self._random.choice(self._crawled)
        more = [*sentences, *self._sentences(is_chinese=is_chinese, count=1)]
        return self._record("recrawl", key, _joined(more, is_chinese=is_chinese))

    def _broken(self) -> SampleRecord:
        key = self._new_id("feed")
        values = (json.dumps({"id": key}).encode(), json.dumps({"id": key, "text": "  "}).encode(), b'{"id": "feed')
        return SampleRecord(key, self._random.choice(values), "broken")

    def _sentences(self, *, is_chinese: bool, count: int = SENTENCES) -> list[str]:
        templates = self._random.sample(_CHINESE if is_chinese else _ENGLISH, count)
        return [self._filled(one) for one in templates]

    def _filled(self, template: str) -> str:
        """Fill the slots of a sentence; Chinese ones by Chinese words."""
        is_chinese = any("\u4e00" <= one <= "\u9fff" for one in template)
        slots = _SLOTS_CHINESE if is_chinese else _SLOTS_ENGLISH
        values = {name: self._random.choice(words.split(",")) for name, words in slots.items()}
        numbers = {"number": self._random.randint(12, 980), "few": self._random.randint(2, 11)}
        return template.format(**values, **numbers, year=self._random.randint(1904, 2019))

    def _new_id(self, outlet: str) -> str:
        self._number += 1
        return f"{outlet}-{self._number}"

    @staticmethod
    def _record(way: str, key: str, text: str) -> SampleRecord:
        return SampleRecord(key, json.dumps({"id": key, "text": text}, ensure_ascii=False).encode(), way)


def _joined(sentences: list[str], *, is_chinese: bool) -> str:
    return "".join(sentences) if is_chinese else " ".join(sentences)
