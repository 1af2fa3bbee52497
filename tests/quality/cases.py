"""The tables of hard cases, ``hard_cases/*.toml``, and how their texts are made.

Each case has a ``name``, the verdict that its second text must have after its first one (``want``), a reason
(``why``), where people differ the side that the profile takes (``taste``), and the profile (``article`` where none is
named). ``known`` says why a verdict is wrong as yet. Both texts are told by a table of their own, made in this order:

* ``say``: the text itself; or ``text``: one of the tables' texts (or the case's own ``text``);
* ``fill``: what stands for its {names};
* ``cut``: numbers of paragraphs left out; ``order``: numbers of paragraphs in another order; counted from 1;
* ``insert``: a paragraph put ``after`` one of that number; ``title``: a line before the first;
* ``replace``: pieces replaced everywhere;
* ``spaced``: a space after every character; ``escaped``: paragraphs in HTML whose tags were escaped.
"""

import html
import tomllib
from pathlib import Path
from typing import Any

Edit = dict[str, Any]

_FILES = [
    tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(__file__).with_name("hard_cases").iterdir())
]
TEXTS: dict[str, str] = {name: text for file in _FILES for name, text in file.get("texts", {}).items()}
CASES: list[Edit] = [case for file in _FILES for case in file["case"]]
SIDES = ("first", "second")


def profile_of(case: Edit) -> str:
    """Name of the profile under which the case is judged."""
    return str(case.get("profile", "article"))


def made(case: Edit, side: str) -> str:
    """One text of a case."""
    edit: Edit = case.get(side, {})
    whole: str = edit["say"] if "say" in edit else TEXTS[edit.get("text") or case["text"]].strip()
    whole = whole.format_map(edit["fill"]) if "fill" in edit else whole
    paragraphs = whole.split("\n")
    order = edit.get("order", range(1, len(paragraphs) + 1))
    kept = [paragraphs[number - 1] for number in order if number not in edit.get("cut", [])]
    if "insert" in edit:
        kept.insert(edit["insert"]["after"], edit["insert"]["text"])
    whole = "\n".join([*([edit["title"]] if "title" in edit else []), *kept])
    for old, new in edit.get("replace", {}).items():
        assert old in whole
        whole = whole.replace(old, new)
    whole = _escaped(whole) if edit.get("escaped") else whole
    return " ".join(whole) if edit.get("spaced") else whole


def _escaped(whole: str) -> str:
    return html.escape("\n".join(f'<p class="text">{line}</p>' for line in whole.split("\n")))
