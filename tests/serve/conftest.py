"""The pipeline under test is that of the worker's tests."""

from tests.worker.conftest import make_pipeline

__all__ = ["make_pipeline"]
