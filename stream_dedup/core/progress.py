"""The callables by which long tasks report their progress."""

from __future__ import annotations

from collections.abc import Callable

ReportProgress = Callable[[int, int], None]
"""Called with the amount that is done and the total amount."""
ReportStage = Callable[[str, int, int], None]
"""Called with the name of the stage, the amount that is done and the total amount."""
