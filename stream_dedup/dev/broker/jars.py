"""Apache Kafka's jars from Maven, kept in the user's cache.

The cache holds a folder only when it is whole: Maven copies into a folder beside it, and a rename makes it
the real one. Two installations at the same time do the work twice; the first rename wins.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from stream_dedup.dev.broker.settings import INSTALL_LIMIT_S, KAFKA_VERSION
from stream_dedup.errors import UnavailableError

POM = Path(__file__).with_name("pom.xml")
JAVA_NEEDED = 17
"""The oldest Java that runs a Kafka 4 broker."""
JAVA_REMEDY = "apt install default-jre-headless maven"
"""Java 17 or later on every Debian and Ubuntu of these years, and what fetches the jars."""
JAVA_LIMIT_S = 60
"""``java -version``, seconds: well under one is usual."""


def cached_jars() -> Path:
    """Return the folder where the jars are, or will be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # jars are run: never those of the current folder
        cache = Path.home() / ".cache"
    return cache / "stream-dedup" / f"kafka-{KAFKA_VERSION}"


def find_java() -> str | None:
    """Return the path of a Java that can run the broker: of JAVA_HOME, or the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    candidates += [path] if (path := shutil.which("java")) else []
    return next((java for java in candidates if _java_version(java) >= JAVA_NEEDED), None)


def install_jars() -> Path:
    """Return the folder of the jars; have Maven fetch them where they are missing.

    Raises:
        UnavailableError: Maven is missing, failed, or took too long.
    """
    folder = cached_jars()
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        msg = f"Java is here but Maven is not, and {folder} has no jars of Kafka yet: apt install maven"
        raise UnavailableError(msg)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        _run_maven(unfinished)
        _put_in_place(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _put_in_place(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first, with the same jars
            raise


def _run_maven(target: Path) -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-Dkafka.version={KAFKA_VERSION}", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        msg = f"Maven did not fetch Kafka {KAFKA_VERSION} within {INSTALL_LIMIT_S} s: try again, or run {command}"
        raise UnavailableError(msg) from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-2000:]
        msg = f"Maven could not fetch Kafka {KAFKA_VERSION}; it said:\n{said}"
        raise UnavailableError(msg)


def _java_version(java: str) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else 0
