"""Manuals in many languages, from Debian packages: prose of hundreds of thousands of characters in each.

The help of GNOME (``gnome-user-docs``, CC-BY-SA 3.0) and of LibreOffice (MPL 2.0). The packages are fetched by apt
once, into the environment of the benchmarks; installed ones serve as well. Another release has another text.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

_GNOME = "gnome-user-docs", "usr/share/help"
_OFFICE = "usr/share/libreoffice/help"
PACKAGES = {
    "ru": (*_GNOME, "ru"),
    "de": (*_GNOME, "de"),
    "ja": ("libreoffice-help-ja", _OFFICE, "ja"),
    "ko": ("libreoffice-help-ko", _OFFICE, "ko"),
    "hi": ("libreoffice-help-hi", _OFFICE, "hi"),
    "km": ("libreoffice-help-km", _OFFICE, "km"),
}
"""By language: package, folder in it, folder of the language."""
_SCRIPTS = {
    "ja": "\u3040-\u30ff",
    "ko": "\uac00-\ud7af",
    "ru": "\u0400-\u04ff",
    "hi": "\u0900-\u097f",
    "km": "\u1780-\u17ff",
}
LEAST = 0.3
"""Share of a paragraph's characters that are of the language's script: what is not translated has less."""
SHORTEST = 40
"""Characters: shorter paragraphs are headings and the like."""
FOLDER = Path(__file__).parents[3] / ".venv" / "manuals"
"""Where the packages are kept."""
_PARAGRAPH = re.compile(r"<p\b[^>]*>(.*?)</p>", re.DOTALL)


@cache
def paragraphs(language: str) -> list[str]:
    """Different paragraphs, in the order of their files."""
    package, root, own = PACKAGES[language]
    foreign = set(_read(_folder(package, root) / "C")) if language == "de" else set()
    script = re.compile(f"[{_SCRIPTS.get(language, 'a-zA-Z')}]")
    found = dict.fromkeys(_read(_folder(package, root) / own))
    return [one for one in found if one not in foreign and len(script.findall(one)) >= LEAST * len(one)]


def _read(folder: Path) -> list[str]:
    pages = sorted((*folder.rglob("*.page"), *folder.rglob("*.html")))
    found = (one for page in pages for one in _PARAGRAPH.findall(page.read_text(encoding="utf-8")))
    plain = (" ".join(html.unescape(re.sub(r"<[^>]*>", "", one)).split()) for one in found)
    return [one for one in plain if len(one) >= SHORTEST]


def _folder(package: str, root: str) -> Path:
    """The package's folder, of the system or of our own."""
    for base in (Path("/"), FOLDER):
        if (base / f"usr/share/doc/{package}").is_dir():
            return base / root
    _fetch(package)
    return FOLDER / root


def _fetch(package: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "--quiet=2", "download", package], cwd=FOLDER, check=True)
        archive = next(FOLDER.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "--extract", str(archive), str(FOLDER)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(
            f"texts of the Debian package {package}: not fetched ({error}); install it by apt-get install {package}"
        )
