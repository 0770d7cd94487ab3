"""Tells what of this machine and this build the package can use."""

from __future__ import annotations

from typing import Any

from . import _commands, _files


def doctor() -> dict[str, Any]:
    """Tells what of this machine and this build is there, as `nacre doctor --json` prints it.

    Returns
    -------
    dict
        "version" is the library's, and "works" tells whether the self-test of the kernels passed. "facts" has one entry
        for each fact, with "group", "name", "state", "is" and "remedy".

    Raises
    ------
    Error
        The self-test of the kernels fails.

    Examples
    --------
    >>> import nacre
    >>> nacre.doctor()["works"]
    True
    """
    with _files.Folder() as folder:
        return _commands.run_json("doctor", [], {}, folder)
