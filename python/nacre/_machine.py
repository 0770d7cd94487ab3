"""Tells what of this machine and this build the package can use."""

from __future__ import annotations

from typing import Any

from . import _commands, _files


def doctor() -> dict[str, Any]:
    """Returns what `nacre doctor --json` prints: "version", "works", and "facts", each with "group", "name", "state", "is"
    and "remedy".

    Raises nacre.Error if the self-test of the kernels fails.
    """
    with _files.Folder() as folder:
        return _commands.run_json("doctor", [], {}, folder)
