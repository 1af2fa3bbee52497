"""What stands in a folder, to say that nothing was changed."""

from pathlib import Path

Tree = dict[str, tuple[object, ...]]


def tree(folder: Path) -> Tree:
    """Every name in a folder with its mode, inode, times and content; links are not followed."""
    return {str(path.relative_to(folder)): _facts(path) for path in [folder, *folder.rglob("*")]}


def _facts(path: Path) -> tuple[object, ...]:
    facts = path.lstat()
    if path.is_symlink():
        content: object = str(path.readlink())
    else:
        content = path.read_bytes() if path.is_file() else None
    return facts.st_mode, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, content
