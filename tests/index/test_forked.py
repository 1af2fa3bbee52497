"""A process that forks while an index is open: the child leaves everything to its parent."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.folders import TemporaryFolder
from tests.index.forking import TEXT

ROOT = Path(__file__).parents[2]
WAYS = ["at once", "exit", "close", "with", "delete", "use", "open another", "multiprocessing"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_a_forked_child_leaves_the_index_to_its_parent(tmp_path: Path, kept: bool) -> None:
    """However it ends: no folder is removed, nothing is written twice, no lock is lost, nothing hangs."""
    command = [sys.executable, "-m", "tests.index.forking", str(tmp_path) if kept else "-", *WAYS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    expected = "".join(f"{way}: 0 flushed written pending\n" for way in WAYS)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    for way in WAYS if kept else []:
        with Index(tmp_path / way) as index:
            assert [one.id for one in index.search(TEXT)] == ["flushed", "written", "pending", "later"]


def test_the_lock_goes_with_the_parent_though_a_child_lives_on(tmp_path: Path) -> None:
    """A child that was forked while the index was open has the lock's file open too."""
    script = (
        "import os, sys\n"
        "from stream_dedup import Index\n"
        "index = Index(sys.argv[1])\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.close(write)\n"
        "    os.read(read, 1)\n"
        "    os._exit(0)\n"
        "index.close()\n"
        "Index(sys.argv[1]).close()\n"
        "print('opened again')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "index")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("opened again\n", "")


@pytest.mark.slow
def test_a_child_fingerprints_though_a_thread_of_its_parent_was_at_its_first_text() -> None:
    """Nothing that such a thread may hold is waited for; each process forks a little later than the one before."""
    script = (
        "import os, signal, sys, threading, time\n"
        "from stream_dedup import fingerprint\n"
        "threading.Thread(target=fingerprint, args=(sys.argv[1],)).start()\n"
        "time.sleep(float(sys.argv[2]))\n"
        "if (child := os.fork()) == 0:\n"
        "    signal.alarm(20)\n"
        "    os._exit(fingerprint(sys.argv[1]) == 0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    for times in range(16):
        command = [sys.executable, "-W", "ignore", "-c", script, 3 * TEXT, str(times * 2e-5)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.stderr) == ("0\n", ""), times


def test_every_table_of_the_core_is_made_when_the_core_is_loaded() -> None:
    """One that is made with the first text may be half made when a process forks; its child would wait for ever."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "native/src").rglob("*.rs")))
    made_once = re.findall(
        r"^ *(?:pub(?:\(\w+\))? )?static (\w+): (?:\w+::)*(?:LazyLock|OnceLock)<", sources, re.MULTILINE
    )
    assert made_once
    assert sorted(re.findall(r"LazyLock::force\(&(?:\w+::)*(\w+)\)", sources)) == sorted(made_once)
    assert sources.count("LazyLock::new") == len(made_once)


def test_a_child_fingerprints_though_a_thread_of_its_parent_loads_words(tmp_path: Path) -> None:
    """The file of the words is a pipe that nothing comes through until the child has ended."""
    script = (
        "import os, signal, sys, threading, time\n"
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from stream_dedup import fingerprint\n"
        "from stream_dedup.core.profiles import PROFILES\n"
        "article = PROFILES['article']\n"
        "own = replace(article, settings=replace(article.settings, user_dictionary=Path(sys.argv[1])))\n"
        "thread = threading.Thread(target=fingerprint, args=('The ferry left.', own))\n"
        "thread.start()\n"
        "pipe = os.open(sys.argv[1], os.O_WRONLY)\n"  # opens when the thread has opened the other end
        "if (child := os.fork()) == 0:\n"
        "    signal.alarm(20)\n"
        "    os._exit(fingerprint('The ferry left.') == 0)\n"
        "print(os.waitpid(child, 0)[1])\n"
        "os.close(pipe)\n"
        "thread.join()\n"
    )
    pipe = tmp_path / "words.txt"
    os.mkfifo(pipe)
    command = [sys.executable, "-W", "ignore", "-c", script, str(pipe)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_temporary_folder_goes_with_its_maker() -> None:
    """By hand, at the end of ``with``, and when it is let go."""
    folder = TemporaryFolder()
    path = folder.path
    assert path.is_dir()
    folder.remove()
    folder.remove()
    assert not path.exists()
    with TemporaryFolder() as path:
        (path / "file").touch()
    assert not path.exists()
    folder = TemporaryFolder()
    path = folder.path
    del folder
    assert not path.exists()
