"""The Grafana boards are about the metrics that there are, and the committed JSON is what the code makes."""

from __future__ import annotations

import json

import pytest

from boards.contents import BOARDS
from boards.grafana import FOLDER, Board, board_json
from tests.deploy.metric_names import unknown_labels, unknown_metrics


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_json_is_up_to_date(board: Board) -> None:
    """``make boards`` writes the same."""
    assert (FOLDER / f"{board.uid}.json").read_text("utf-8") == board_json(board)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_boards_use_metrics_that_exist(board: Board) -> None:
    """Every metric named in a query is declared, with its labels, and every query of the contents is in the JSON."""
    queries = [query.expr for panel in board.panels for query in panel.queries]
    assert unknown_metrics("\n".join(queries)) == set()
    assert unknown_labels("\n".join(queries)) == set()
    written = [target["expr"] for panel in json.loads(board_json(board))["panels"] for target in panel["targets"]]
    assert written == queries


def test_every_file_is_a_board() -> None:
    """Nothing is left of a board that is no more."""
    assert {path.stem for path in FOLDER.iterdir()} == {board.uid for board in BOARDS}
