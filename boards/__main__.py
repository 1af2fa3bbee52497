"""Writes the boards; ``tests/deploy/test_boards.py`` proves that the written ones are up to date."""

from boards.contents import BOARDS
from boards.grafana import FOLDER, board_json

for board in BOARDS:
    (FOLDER / f"{board.uid}.json").write_text(board_json(board), "utf-8")
