"""Tells what of this machine and this build the package can use."""

from __future__ import annotations

from . import _commands, _files
from ._result import Result


def doctor() -> Result:
    """Tells what of this machine and this build is there, as `nacre doctor --json` prints it.

    Returns
    -------
    Result
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
