"""Rules of operators: a scope, updates of articles that are crawled again, and observing only."""

import json

import pytest

from stream_dedup.core.headers import Stamp
from stream_dedup.core.model import Verdict
from tests.worker.conftest import MakePipeline
from tests.worker.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STORY = (
    "市图书馆周末恢复夜间开放，读者可以在二楼阅览室看书到晚上十点。馆长说，去年因为维修，夜间服务停了八个月，"
    "这次换了新的灯和座椅，还添了三十台可以借用的电脑。附近的学生听到消息都很高兴。"
    "运营方提醒乘客高峰时段错峰出行并注意安全，气象部门预计周末将有一次大范围降雨过程。"
    "研究人员在深海发现了一种会发光的小型水母，市场分析认为新能源汽车的销量还会继续增长。"
    "老街改造保留了百年茶馆和手工竹编的店铺，医生建议久坐的人每隔一小时起身活动几分钟。"
    "球队在加时赛中凭借一记远射赢得了比赛，沿线居民表示出行时间缩短了将近一半。"
    "学校延长了操场的开放时间，方便附近的居民在傍晚跑步，也给放学的孩子多留了一个去处。"
    "城南的河道清淤工程昨天完工，水务部门说，今年汛期来临以前还会再检查一遍所有的泵站。"
)
EDITED = STORY.replace("三十台", "四十台").replace("一记远射", "一个点球")


def article(name: str, text: str, **more: str) -> tuple[bytes, bytes]:
    return name.encode(), json.dumps({"id": name, "text": text, **more}, ensure_ascii=False).encode()


def judged(made: Pipeline) -> list[tuple[str, Stamp]]:
    """Topic (its last word) and stamp of every output, in the order of the source, once all have left."""
    worker = made.start()
    made.wait_done()
    made.stop(worker)
    found = sorted((stamp.coordinates.offset, topic, stamp) for topic, _, stamp in made.outputs())
    made.assert_sound()
    return [(topic.rpartition("-")[2], stamp) for _, topic, stamp in found]


def matches(found: list[tuple[str, Stamp]]) -> list[tuple[str, str | None]]:
    return [(topic, None if stamp.match is None else stamp.match.id) for topic, stamp in found]


@pytest.mark.full  # filter has the same rules: tests/files/test_filter_rules.py
def test_scope(make_pipeline: MakePipeline) -> None:
    """Articles match only within the value of the scope field; those without one are a scope of their own."""
    made = make_pipeline(input={"scope_field": "site"})
    made.produce(
        [
            article("a-1", STORY, site="a"),
            article("b-1", STORY, site="b"),
            article("none-1", STORY),
            article("b-2", EDITED, site="b"),
            article("none-2", EDITED),
            article("a-2", EDITED, site="a"),
        ]
    )
    assert matches(judged(made)) == [
        ("unique", None),
        ("unique", None),
        ("unique", None),
        ("duplicate", "b-1"),
        ("duplicate", "none-1"),
        ("duplicate", "a-1"),
    ]


def test_observing(make_pipeline: MakePipeline) -> None:
    """Every record goes to the topic of unique ones, with its verdict and its bytes, until the rules are changed."""
    made = make_pipeline(match={"observe": True})
    values = [article("one", STORY), article("two", EDITED), (b"broken", b"{broken"), (b"none", None)]
    made.produce(values)
    found = judged(made)
    verdicts = [Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.REJECTED, Verdict.REJECTED]
    assert [(topic, stamp.verdict) for topic, stamp in found] == [("unique", verdict) for verdict in verdicts]
    records = sorted(made.read(made.config().topics.unique), key=lambda record: int(record.offset))
    assert [(record.key, record.value) for record in records] == values
    made.set("match", observe=False)
    done = made.run("rules", "apply")
    assert done.returncode == 0, done.stdout + done.stderr
    made.produce([article("three", EDITED), (b"broken", b"{broken")])
    assert [topic for topic, _ in judged(made)] == [*["unique"] * 4, "duplicate", "rejected"]
