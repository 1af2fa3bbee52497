import pytest

from stream_dedup.core.fingerprint import entry_maker
from tests.pool.children import LIGHT_STEP, take_step
from tests.pool.light import LightFingerprinter


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children, and makers in this process, load in a third of the time, and compute other signatures."""
    monkeypatch.setattr(entry_maker, "Fingerprinter", LightFingerprinter)
    take_step(monkeypatch, LIGHT_STEP)
