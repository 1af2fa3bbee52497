"""The Grafana boards, as code: ``python -m boards`` writes them to deploy/grafana/boards."""

from stream_dedup.dev.scripts import say_errors

say_errors()
