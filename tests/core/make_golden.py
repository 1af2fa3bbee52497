"""Golden values: what entries and plans of fixed texts are, on every machine and run.

There is a file for each profile, and one of the steps of the scheme that call code of others (``steps``).

``python -m tests.core.make_golden`` writes them anew. Do that only together with a new version of the profile, or
for one that was never released: logs and indexes were made under the old values.
"""

import json
from pathlib import Path
from typing import Any

from stream_dedup.core import probes
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.model import Status, scope_hash_of
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings, scheme_of
from tests.core.steps import results
from tests.core.texts import ENGLISH_STORY, MORE, SAMPLE, STORY

FOLDER = Path(__file__).with_name("golden")
PROBES = 64
SCOPES = (None, "site-1")
VARIANT = FingerprintSettings(
    profile="variant",
    long=PROFILES["article"].settings.long,
    short=PROFILES["article"].settings.short,
    article_size=200,
    exact_size=8,
    fields=(("title", 3), ("body", 1)),
    key_sentences=2,
    html_fields=("body",),
    scope_field="site",
    seed=3,
    tables=16,
).with_normalisation(numbers="token", users="token", emoji="token")
"""Settings of many kinds that no profile has."""
VARIANT_TEXTS = (
    ("图书馆重新开放", "".join(f"<p>{line}</p>" for line in STORY.split("\n"))),
    ("Town under water", f"<div>{ENGLISH_STORY}<br>Call 555 1234, @desk 😀</div>"),
    ("", "<p>加微信领红包，每天轻松赚 300 元</p>"),
)
NAMES = (*PROFILES, "variant")


def golden(name: str) -> dict[str, Any]:
    """Values of one profile, as they stand in its file."""
    settings = VARIANT if name == "variant" else PROFILES[name].settings
    texts = VARIANT_TEXTS if name == "variant" else (*SAMPLE, *MORE)
    made = Fingerprinter(settings).fingerprint(texts)
    plans = probes.directed(made.margins, PROBES)
    return {
        "scheme": scheme_of(settings).id,
        "entries": [
            {
                "status": Status(int(made.statuses[row])).name,
                "scope_hashes": [f"{scope_hash_of(Status(int(made.statuses[row])), scope):016x}" for scope in SCOPES],
                "signature": made.signatures[row].tobytes().hex(),
                "margins": made.margins[row].tobytes().hex(),
                **({"sketch": made.sketches[row].tobytes().hex()} if settings.sketch else {}),
                "plan": plans[row].astype(">u4").tobytes().hex(),
            }
            for row in range(len(texts))
        ],
    }


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        _write(name, golden(name))
    _write("steps", results())


def _write(name: str, values: dict[str, Any]) -> None:
    (FOLDER / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
