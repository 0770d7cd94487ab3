"""Pictures of the results of commands, by matplotlib. Each function draws one in the axes that it gets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._result_tables import Rows, tables_of

Values = Mapping[str, Any]
_MOST_BARS = 40  # that one picture names


def plot(command: str, values: Values, axes: Any) -> Any:
    """Draws the picture of a result and returns its axes. Raises ImportError without matplotlib, and ValueError for a
    result without one."""
    try:
        import matplotlib.pyplot as pyplot  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'nacre[plot]'") from error
    draw = _PLOTS.get(command)
    tables = {name: rows for name, rows in tables_of(command, values).items() if rows}
    if draw is None or not tables:
        raise ValueError(f"this result of {command} has nothing to draw: its tables are empty")
    if axes is None:
        _, axes = pyplot.subplots(layout="constrained")
    draw(values, tables, axes)
    return axes


def _bars(axes: Any, names: Sequence[object], parts: Mapping[str, Sequence[float]], label: str, title: str) -> None:
    """Draws horizontal bars from the top, one for each name. `parts`: lengths, which are stacked."""
    if len(names) > _MOST_BARS:
        title += f", first {_MOST_BARS} of {len(names)}"
    places = range(min(len(names), _MOST_BARS))
    left = [0.0 for _ in places]
    for part, lengths in parts.items():
        axes.barh(places, lengths[:_MOST_BARS], left=left, label=part)
        left = [begin + length for begin, length in zip(left, lengths)]
    axes.set_yticks(places, [str(name) for name in names[:_MOST_BARS]])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_title(title)
    if len(parts) > 1:
        axes.legend()


def _points(axes: Any, rows: Rows, x: str, y: str, names: Sequence[object], title: str) -> None:
    for row, name in zip(rows, names):
        axes.plot(row[x], row[y], "o")
        axes.annotate(str(name), (row[x], row[y]), textcoords="offset points", xytext=(4, 4), fontsize="small")
    axes.margins(x=0.15, y=0.15)
    axes.set_xlabel(x.rpartition(".")[2].replace("_", " "))
    axes.set_ylabel(y.rpartition(".")[2])
    axes.set_title(title)


def _eval(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    rows = tables["models"]
    _points(axes, rows, "file_bytes", "value", [row["model"] for row in rows], f"{values['metric']} against bytes")
    axes.set_ylabel(values["metric"])


def _search(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    metric = values["metric"]
    rows = [row for row in tables["rows"] if row.get("measured.bytes") is not None]
    score = f"measured.{metric}" if rows and f"measured.{metric}" in rows[0] else "measured.drop"
    for pareto in (False, True):
        chosen = [row for row in rows if bool(row["pareto"]) == pareto]
        label = "Pareto front" if pareto else "other maps"
        axes.plot([row["measured.bytes"] for row in chosen], [row[score] for row in chosen], "o", label=label)
    axes.set_xlabel("bytes")
    axes.set_ylabel(score.removeprefix("measured."))
    axes.set_title(f"{metric} against bytes of {len(rows)} policy maps")
    axes.legend()


def _compare(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    rows = sorted(tables.get("tensors", ()), key=lambda row: row["step"])
    if not rows:
        rows = tables["outputs"]
    names = [row.get("layer") or row.get("name") for row in rows]
    # relative error = |b - a| / |a| = 10^(-SQNR / 20), over all elements of a tensor
    noise = [0.0 if row["sqnr_db"] is None else 10 ** (-row["sqnr_db"] / 20) for row in rows]
    title = f"error by layer: {values['b']} against {values['a']}"
    _bars(axes, names, {"error": noise}, "relative error (RMS)", title)


def _size(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    title = f"{values['model']} on {values['machine']}"
    if "bytes" in tables:
        rows = tables["bytes"]
        _bars(axes, [row["purpose"] for row in rows], {"bytes": [row["bytes"] for row in rows]}, "bytes", title)
        return
    rows = tables["programs"]
    parts = [key for key in rows[0] if key not in ("entry", "target", "steps", "total")]
    names = [f"{row['entry']} {row['target']}" for row in rows]
    sizes = {part: [row.get(part) or 0 for row in rows] for part in parts if any(row.get(part) for row in rows)}
    _bars(axes, names, sizes, "bytes", title)


def _inspect(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    if "network" in values:
        rows = tables["operators"]
        counts = {"operators": [row["count"] for row in rows]}
        _bars(axes, [row["operator"] for row in rows], counts, "operators", os.path.basename(values["network"]))
        return
    rows = [row for row in tables["layers"] if row["weight_bytes"] or row["activation_bytes"]]
    sizes = {part: [row[f"{part}_bytes"] for row in rows] for part in ("weight", "activation")}
    _bars(axes, [row["layer"] for row in rows], sizes, "bytes", f"bytes by layer of {values['model']}")


def _check(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    if "golden" in tables:
        rows = tables["golden"]
        axes.plot([row["largest_difference"] for row in rows], "o", label="largest difference")
        axes.plot([row["tolerance"] for row in rows], "_", markersize=16, label="tolerance")
        axes.set_xticks(range(len(rows)))
        axes.set_xlabel("golden pair")
        axes.set_title(f"golden pairs of {values['model']}")
        axes.legend()
        return
    rows = tables["programs"]
    sizes = {"arena": [row["arena_bytes"] for row in rows]}
    _bars(axes, range(len(rows)), sizes, "arena bytes", f"programs of {values['model']}")


def _doctor(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    rows = tables["facts"]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    states = list(dict.fromkeys(row["state"] for row in rows))
    counts: dict[str, Sequence[float]] = {
        state: [sum(row["group"] == group and row["state"] == state for row in rows) for group in groups]
        for state in states
    }
    _bars(axes, groups, counts, "facts", f"nacre {values['version']} on this machine")


def _tune(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    rows = tables["epochs"]
    for key in ("loss", "validation_loss"):
        if any(row.get(key) is not None for row in rows):
            axes.plot([row["epoch"] for row in rows], [row.get(key) for row in rows], "o-", label=key.replace("_", " "))
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    axes.set_title(f"loss by epoch of {os.path.basename(values['model'])}")
    axes.legend()


def _timed(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    if "ops" in tables:
        rows = tables["ops"]
        title = f"time by op of {values['model']}"
        _bars(axes, [row["op"] for row in rows], {"us": [row["us"] for row in rows]}, "us", title)
        return
    rows = [row for row in tables["times"] if row["of"] != "standard_deviation"]
    _bars(axes, [row["of"] for row in rows], {"us": [row["us"] for row in rows]}, "us", f"a run of {values['model']}")


def _kernels(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    if "set" in values:
        ops = [row["op"] for row in tables["kernels"]]
        names = list(dict.fromkeys(ops))
        _bars(axes, names, {"kernels": [ops.count(op) for op in names]}, "kernels", f"set {values['set']}")
        return
    rows = tables["sets"]
    counts = {"kernels": [row["kernels"] for row in rows]}
    _bars(axes, [row["set"] for row in rows], counts, "kernels", "sets of kernels")


def _firmware(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    rows = tables["bytes"]
    _bars(axes, [row["of"] for row in rows], {"bytes": [row["bytes"] for row in rows]}, "bytes", values["machine"])


def _report(values: Values, tables: Mapping[str, Rows], axes: Any) -> None:
    if "evaluation" in values:
        return _eval(values["evaluation"], {"models": tables["models"]}, axes)
    sizes = {key: [row[key] for row in tables["models"]] for key in ("weight_bytes", "arena_bytes")}
    _bars(axes, [row["model"] for row in tables["models"]], sizes, "bytes", "bytes of weights and arena")


_PLOTS: dict[str, Callable[[Values, Mapping[str, Rows], Any], None]] = {
    "bench": _timed,
    "check": _check,
    "compare": _compare,
    "doctor": _doctor,
    "eval": _eval,
    "firmware": _firmware,
    "inspect": _inspect,
    "kernels": _kernels,
    "report": _report,
    "run": _timed,
    "search": _search,
    "size": _size,
    "tune": _tune,
}
