"""The Grafana boards, as code: ``python -m boards`` writes them to deploy/grafana/boards."""
