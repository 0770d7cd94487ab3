"""Lists numeric policies: their names, and what a name means.

The page `docs/reference/policy_language.md` describes the language of names.
"""

from __future__ import annotations

import json
from typing import Any

from . import _commands, _files


def names() -> list[str]:
    """Returns every name without parameters, as `nacre policies --json` lists them.

    Returns
    -------
    list of str
        Names that `nacre.convert(policy=...)` takes.

    Examples
    --------
    >>> import nacre
    >>> {"float32", "mixed_bfloat16"} <= set(nacre.policies.names())
    True
    """
    return list(_forms()["names"])


def forms() -> list[dict[str, Any]]:
    """Returns every form of a name, with its meaning and an example.

    Returns
    -------
    list of dict
        One entry for each form. "system" is the system that it comes from, "form" its spelling, "meaning" a sentence
        and "example" a name, or "". If the example is a policy, "record" has its fields.

    Examples
    --------
    >>> import nacre
    >>> sorted(nacre.policies.forms()[0])[:3]
    ['example', 'form', 'meaning']
    """
    return list(_forms()["forms"])


def fields() -> list[dict[str, Any]]:
    """Returns every field of a policy, with the values that it takes.

    Returns
    -------
    list of dict
        One entry for each field: "key" is its name and "expected" says which values it takes.

    Examples
    --------
    >>> import nacre
    >>> nacre.policies.fields()[0]["key"]
    'variable'
    """
    return list(_forms()["fields"])


def resolve(policy: str) -> dict[str, Any]:
    """Returns the fields of a policy.

    Parameters
    ----------
    policy : str
        Name of the policy.

    Returns
    -------
    dict
        Value of each field, such as "variable", "compute" and "quantization". Empty for "source", which leaves layers
        as their file has them.

    Raises
    ------
    Error
        The name is no policy (`exit_code` 2).

    Examples
    --------
    >>> import nacre
    >>> fields = nacre.policies.resolve("mixed_bfloat16")
    >>> fields["variable"], fields["compute"]
    ('float32', 'bfloat16')
    """
    with _files.Folder() as folder:
        made = json.loads(_commands.run("policies", [policy], {}, folder, own={"json": True}))
    return dict(made.get("record", {}))


def _forms() -> dict[str, Any]:
    with _files.Folder() as folder:
        return _commands.run_json("policies", [], {}, folder)
