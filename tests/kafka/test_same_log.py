"""A log that is recreated while articles are entered is another one."""

from __future__ import annotations

from contextlib import closing

import pytest

from stream_dedup.config.model import Config
from stream_dedup.errors import RefusedError
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.topics import ensure_topics
from stream_dedup.seed.seeding import SameLog
from tests.waiting import wait_until


@pytest.mark.slow
def test_a_log_that_is_deleted_or_made_anew_is_another_one(config: Config) -> None:
    """By its id: name and settings are the same."""
    log = config.log_topic
    with closing(make_admin(config.kafka)) as admin:
        ensure_topics(admin, config)
        same_log = SameLog(log, lambda: patiently(config.kafka, log, lambda: topic_ids(admin, [log]).get(log)))
        same_log.check_now()
        admin.delete_topics([log])
        wait_until(lambda: not topic_ids(admin, [log]), 60, "the log is gone")
        with pytest.raises(RefusedError, match=f"{log} was deleted or recreated"):
            same_log.check_now()
        ensure_topics(admin, config)
        with pytest.raises(RefusedError, match=f"{log} was deleted or recreated"):
            same_log.check_now()
