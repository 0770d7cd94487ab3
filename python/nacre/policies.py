"""Lists numeric policies: their names, and what a name means."""

from __future__ import annotations

import json
from typing import Any

from . import _commands, _files


def names() -> list[str]:
    """Returns every name without parameters, as `nacre policies --json` lists them."""
    return list(_forms()["names"])


def forms() -> list[dict[str, Any]]:
    """Returns every form of a name with its meaning and an example: {"system", "form", "meaning", "example"}, and
    "record", the example's fields, if it is a policy."""
    return list(_forms()["forms"])


def resolve(policy: str) -> dict[str, Any]:
    """Returns the fields of a policy, such as "mixed_bfloat16": {"variable": "float32", "compute": "bfloat16", ...}.

    The policy "source", which leaves layers as their file has them, gives {}. Raises nacre.Error for a name that is no
    policy.
    """
    with _files.Folder() as folder:
        made = json.loads(_commands.run("policies", [policy], {}, folder, own={"json": True}))
    return dict(made.get("record", {}))


def _forms() -> dict[str, Any]:
    with _files.Folder() as folder:
        return _commands.run_json("policies", [], {}, folder)
