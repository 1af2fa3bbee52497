"""Makes Grafana's JSON from the contents of a board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FOLDER = Path(__file__).parents[1] / "deploy" / "grafana" / "boards"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_STAT_HEIGHT, _PANEL_HEIGHT = 4, 8
AnyPanel = timeseries.Panel | stat.Panel | heatmap.Panel


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: one number, curves, or a heat map of a histogram's buckets. ``width`` is in 24ths of the board."""

    title: str
    about: str
    unit: str
    queries: tuple[Query, ...]
    width: int
    kind: type[AnyPanel]


def number(title: str, about: str, unit: str, expr: str) -> Panel:
    """Return a panel of one number."""
    return Panel(title, about, unit, (Query(expr),), 4, stat.Panel)


def curves(title: str, about: str, unit: str, *queries: Query | str) -> Panel:
    """Return a panel of curves; an expression alone has no legend."""
    made = (Query(query) if isinstance(query, str) else query for query in queries)
    return Panel(title, about, unit, tuple(made), 12, timeseries.Panel)


def heat_map(title: str, about: str, unit: str, expr: str) -> Panel:
    """Return a heat map of the buckets of a histogram."""
    return Panel(title, about, unit, (Query(expr, "{{le}}"),), 12, heatmap.Panel)


@dataclass(frozen=True, slots=True)
class Board:
    """A board; ``by_instance`` adds the choice of workers, as ``$instance``."""

    uid: str
    title: str
    about: str
    panels: tuple[Panel, ...]
    by_instance: bool = False


def board_json(board: Board) -> str:
    """Return the JSON of a board, the same for the same contents."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags(["stream-dedup"])
        .refresh("30s")
        .time("now-3h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    if board.by_instance:
        made = made.with_variable(
            dashboard.QueryVariable("instance")
            .label("Worker")
            .datasource(_SOURCE)
            .query("label_values(stream_dedup_build_info, instance)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)  # noqa: FBT003 - the builder's own form
            .include_all(True)  # noqa: FBT003
        )
    for panel in board.panels:
        made = made.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _panel(panel: Panel) -> AnyPanel:
    height = _STAT_HEIGHT if panel.kind is stat.Panel else _PANEL_HEIGHT
    made = panel.kind().title(panel.title).description(panel.about).unit(panel.unit).datasource(_SOURCE)
    made = made.span(panel.width).height(height)
    if isinstance(made, timeseries.Panel):
        made = made.legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)  # noqa: FBT003 - the builder's own form
        ).min(0)
    for at, query in enumerate(panel.queries):
        made = made.with_target(_target(query, chr(ord("A") + at), panel.kind is heatmap.Panel))
    return made


def _target(query: Query, ref_id: str, is_heatmap: bool) -> prometheus.Dataquery:  # noqa: FBT001
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ref_id)
    return target.format(PromQueryFormat.HEATMAP) if is_heatmap else target
