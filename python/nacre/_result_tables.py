"""Tables of the results of commands: which there are, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]
Rows = list[Row]
Values = Mapping[str, Any]


def tables_of(command: str, values: Values) -> dict[str, Rows]:
    """Returns the tables of a result by their names. The first is the one that its user expects."""
    made = _TABLES.get(command, _no_tables)(values)
    filled = [name for name, rows in made.items() if rows]
    if not filled:
        return made
    return {name: made[name] for name in dict.fromkeys([filled[0], *made])}


def flat(entry: Values, before: str = "") -> Row:
    """Returns an entry of JSON as a row: an object in it becomes columns "object.key". Lists of objects are left
    out."""
    row: Row = {}
    for key, value in entry.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{before}{key}.")
        elif not (isinstance(value, list) and value and isinstance(value[0], Mapping)):
            row[before + key] = value
    return row


def _listed(*names: str) -> Callable[[Values], dict[str, Rows]]:
    """Returns a function of a result whose lists of these names are tables already."""

    def tables(values: Values) -> dict[str, Rows]:
        return {name: [flat(entry) for entry in values[name]] for name in names if name in values}

    return tables


def _no_tables(values: Values) -> dict[str, Rows]:
    return {}


def _search(values: Values) -> dict[str, Rows]:
    chosen = values.get("map", {}).get("layers", {})
    return {
        "rows": [_map_last(entry) for entry in values["rows"]],
        "sensitivity": [flat(entry) for entry in values["sensitivity"]],
        "map": [{"layer": layer, "policy": policy} for layer, policy in chosen.items()],
    }


def _map_last(entry: Values) -> Row:
    return flat({**{key: value for key, value in entry.items() if key != "map"}, "map": entry["map"]})


def _size(values: Values) -> dict[str, Rows]:
    if "bytes" in values:
        return {"bytes": [{"purpose": purpose, "bytes": count} for purpose, count in values["bytes"].items()]}
    return {
        "programs": [
            {
                **{key: value for key, value in program.items() if key not in ("arena", "blocks", "total")},
                **{bank["name"]: bank["bytes"] for bank in program["arena"]},
                **program["blocks"],
                "total": program["total"],
            }
            for program in values["programs"]
        ]
    }


def _inspect(values: Values) -> dict[str, Rows]:
    if "network" in values:  # of a network's file
        return {
            "operators": [{"operator": name, "count": count} for name, count in values["operators"].items()],
            "unsupported": [flat(entry) for entry in values["unsupported"]],
            "inputs": [flat(entry) for entry in values["inputs"]],
            "outputs": [flat(entry) for entry in values["outputs"]],
            "log": [flat(entry) for entry in values.get("log", [])],
        }
    of_program = [({"entry": program["entry"], "target": program["target"]}, program) for program in values["programs"]]
    return {
        "layers": [_layer(about, layer) for about, program in of_program for layer in program["layers"]],
        "steps": [{**about, **flat(step)} for about, program in of_program for step in program["steps"]],
        "tensors": [{**about, **flat(tensor)} for about, program in of_program for tensor in program["tensors"]],
        "programs": [flat(program) for _, program in of_program],
    }


def _layer(about: Row, layer: Values) -> Row:
    return {
        **about,
        "layer": layer["name"],
        "op": layer["source_op"],
        "policy": layer["policy"]["name"],
        "steps": len(layer["steps"]),
        **{key: layer[key] for key in ("multiply_accumulates", "weight_bytes", "activation_bytes")},
    }


def _timed(values: Values) -> dict[str, Rows]:
    """Returns the tables of bench and run: times, and those of a profile if there is one."""
    profile = values.get("profile", {})
    times = [{"of": key.removesuffix("_us"), "us": value} for key, value in values.items() if key.endswith("_us")]
    return {
        **({"outputs": [_output(entry) for entry in values["outputs"]]} if "outputs" in values else {}),
        **({"top": _top(values["top"])} if "top" in values else {}),
        "times": times,
        **{name: [flat(entry) for entry in profile[name]] for name in ("ops", "steps") if name in profile},
    }


def _output(entry: Values) -> Row:
    return {key: value for key, value in entry.items() if key not in ("array", "values")}


def _top(top: Values) -> Rows:
    return [{"sample": i, **flat(place)} for i, sample in enumerate(top["samples"]) for place in sample]


def _kernels(values: Values) -> dict[str, Rows]:
    return _listed("kernels")(values) if "set" in values else _listed("sets")(values)


def _report(values: Values) -> dict[str, Rows]:
    judged = values.get("evaluation", {}).get("models", [{}] * len(values["models"]))
    lists = {"tensors": "comparison", "outputs": "comparison", "steps": "profile", "ops": "profile"}
    return {
        "models": [
            {key: value for key, value in (model | score).items() if key not in ("profile", "comparison")}
            | {"model": model["model"]}
            for model, score in zip(values["models"], judged)
        ],
        **{
            name: [
                {"model": model["model"], **flat(entry)}
                for model in values["models"]
                for entry in model.get(part, {}).get(name, [])
            ]
            for name, part in lists.items()
        },
    }


def _firmware(values: Values) -> dict[str, Rows]:
    counted = [key for key in values if key.endswith("_bytes")]
    return {
        "bytes": [{"of": key.removesuffix("_bytes"), "bytes": values[key]} for key in counted],
        "files": [{"file": path} for path in values["files"]],
    }


_TABLES: dict[str, Callable[[Values], dict[str, Rows]]] = {
    "bench": _timed,
    "check": _listed("golden", "programs"),
    "compare": _listed("tensors", "outputs", "unmatched"),
    "doctor": _listed("facts"),
    "eval": _listed("models"),
    "export": _no_tables,
    "firmware": _firmware,
    "inspect": _inspect,
    "kernels": _kernels,
    "report": _report,
    "run": _timed,
    "search": _search,
    "size": _size,
    "tune": _listed("epochs", "trained"),
}
