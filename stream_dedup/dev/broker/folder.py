"""The folder that the caller chose for the data of a development broker.

It is the caller's: made where it is missing, used as it is where it is there, never given to others by a change of its
mode or owner. Whatever the broker runs on, it runs as the caller, so that what the caller may do is what it may do.
"""

import os
from pathlib import Path

from stream_dedup.errors import UserError


def usable_folder(folder: Path) -> Path:
    """Return the absolute path of a folder that the caller can read and write, with all that lies directly in it.

    Raises:
        UserError: it cannot be made, or it or an entry of it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        denied = [path for path in (folder, *folder.iterdir()) if not os.access(path, os.R_OK | os.W_OK)]
    except OSError as error:
        msg = f"data folder {folder}: cannot be used ({error.strerror}); name one of your own with --data"
        raise UserError(msg) from error
    if denied:
        remedy = f"name another with --data, or take it over with: chown -R {os.geteuid()} {folder}"
        msg = f"data folder {folder}: {denied[0]} cannot be read and written by user {os.geteuid()}; {remedy}"
        raise UserError(msg)
    return folder.absolute()
