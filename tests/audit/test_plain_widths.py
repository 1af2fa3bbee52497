"""Batches whose columns are not as wide as the scheme of their log says."""

import pytest

from stream_dedup.core.model import Widths
from stream_dedup.errors import CorruptError
from tests.logs import LogOfTest, batch, directed_rules, scheme_of


@pytest.mark.parametrize(
    ("widths", "scheme_has"), [(Widths(8), "8 tables and no sketches"), (Widths(4, 16), "4 tables and sketches of 16")]
)
def test_batch_of_other_widths(widths: Widths, scheme_has: str) -> None:
    """Margins of other tables than the scheme's, or other sketches, are no log of it."""
    log = LogOfTest()
    log.add(directed_rules(scheme=scheme_of(*widths)))
    log.add(batch([0], [1]))
    with pytest.raises(CorruptError, match=f"entries of 4 tables and no sketches, the log's scheme has {scheme_has}"):
        log.plain()
