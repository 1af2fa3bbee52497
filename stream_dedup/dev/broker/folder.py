"""Checks the data folder that the caller of a development broker chose.

The folder belongs to the caller: it is made if it is missing, and its mode and owner are never changed. The broker runs
as the caller, in a container too, so it has the caller's permissions.
"""

import os
from pathlib import Path

from stream_dedup.errors import UserError


def usable_folder(folder: Path) -> Path:
    """Return the absolute path of the folder if the caller can read and write it and its entries.

    Raises:
        UserError: the folder cannot be made, or it or an entry of it cannot be written.
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
