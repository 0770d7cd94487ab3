"""Results of commands: dicts of the command's JSON, with tables for pandas and a picture of each."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import nacre

matplotlib = pytest.importorskip("matplotlib")
pandas = pytest.importorskip("pandas")
matplotlib.use("agg")

# The first table of each result, a column that it has, and the label of the picture's x axis.
EXPECTED = {
    "bench": ("times", "us", "us"),
    "bench profile": ("times", "us", "us"),
    "check": ("golden", "largest_difference", "golden pair"),
    "check without golden pairs": ("programs", "arena_bytes", "arena bytes"),
    "compare": ("tensors", "sqnr_db", "relative error (RMS)"),
    "doctor": ("facts", "state", "facts"),
    "evaluate": ("models", "value", "file bytes"),
    "firmware": ("bytes", "bytes", "bytes"),
    "inspect": ("layers", "weight_bytes", "bytes"),
    "inspect network": ("operators", "count", "operators"),
    "kernels": ("sets", "kernels", "kernels"),
    "kernels of a set": ("kernels", "op", "kernels"),
    "report": ("models", "file_bytes", "file bytes"),
    "report of one model": ("models", "weight_bytes", "bytes"),
    "run": ("outputs", "name", "us"),
    "search": ("rows", "measured.bytes", "bytes"),
    "size": ("programs", "total", "bytes"),
    "size of training": ("bytes", "bytes", "bytes"),
    "tune": ("epochs", "validation_loss", "epoch"),
}


@pytest.fixture(scope="module")
def results(digits, images, labels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    small = nacre.convert(digits, policy="int8_from_float32", golden=2, batch=8)
    plain = nacre.convert(digits, batch=8)
    trains = nacre.convert(digits, train="softmax_cross_entropy")
    x, y = images[:40], labels[:40]
    quick = {"runs": 3, "min_ms": 1, "warmup_runs": 1, "warmup_ms": 1}
    policies = ["float32", "int8_from_float32"]
    return {
        "bench": small.bench(**quick),
        "bench profile": small.bench(profile=True, **quick),
        "check": small.check(),
        "check without golden pairs": plain.check(),
        "compare": nacre.compare(plain, small, x),
        "doctor": nacre.doctor(),
        "evaluate": nacre.evaluate([plain, small], x, y),
        "firmware": nacre.convert(digits, target="arm/m4").firmware(folder / "firmware"),
        "inspect": nacre.inspect(small),
        "inspect network": nacre.inspect(digits),
        "kernels": nacre.kernels(),
        "kernels of a set": nacre.kernels(set="m4"),
        "report": nacre.report([plain, small], folder / "two.html", data=x, labels=y),
        "report of one model": nacre.report(plain, folder / "one.html"),
        "run": small.run(x),
        "search": nacre.search(digits, x, y, policies=policies, budget=8, max_drop=0.2),
        "size": nacre.size(small, "arm/m4"),
        "size of training": nacre.size(trains, train=True),
        "tune": nacre.tune(digits, x, y, loss="huber", epochs=2, validate=0.25, lr=1e-4).summary,
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_a_result_is_a_dict_with_its_table_and_picture(results, name):
    result, (table, column, label) = results[name], EXPECTED[name]
    assert type(result) is nacre.Result and isinstance(result, dict) and result.tables[0] == table
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(result.rows()) > 0 and column in frame.columns
    assert all(len(result.to_pandas(each)) == len(result.rows(each)) for each in result.tables)
    axes = result.plot()
    assert axes.get_xlabel() == label and (axes.patches or axes.lines)
    assert f"nacre {result.command}" in result._repr_html_() and f"<th>{column}</th>" in result._repr_html_()
    matplotlib.pyplot.close(axes.figure)


@pytest.mark.parametrize("name", EXPECTED)
def test_copies_and_pickles_are_results(results, name):
    result = results[name]
    if name == "run":  # arrays do not compare to one bool
        result = nacre.Result("run", {key: value for key, value in result.items() if key != "outputs"})
    for made in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result), result.copy()):
        assert type(made) is nacre.Result and made == result and made.command == result.command
        assert made.tables == result.tables and made is not result
    assert json.loads(json.dumps(result)) == result


def test_a_picture_goes_into_given_axes(results):
    figure, axes = matplotlib.pyplot.subplots()
    assert results["size"].plot(axes) is axes and len(axes.patches) > 0
    matplotlib.pyplot.close(figure)


def test_bars_of_a_picture_have_the_lengths_of_the_table(results):
    axes = results["inspect"].plot()
    rows = [row for row in results["inspect"].rows() if row["weight_bytes"] or row["activation_bytes"]]
    assert [bar.get_width() for bar in axes.patches[: len(rows)]] == [row["weight_bytes"] for row in rows]
    assert [text.get_text() for text in axes.get_yticklabels()] == [row["layer"] for row in rows]
    axes = results["compare"].plot()
    rows = sorted(results["compare"]["tensors"], key=lambda row: row["step"])
    error = [0 if row["sqnr_db"] is None else 10 ** (-row["sqnr_db"] / 20) for row in rows]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(error)


def test_tables_have_the_numbers_of_the_command(results, digits, images):
    size = results["size"]
    row = size.rows()[0]
    program = size["programs"][0]
    assert row["arena"] == program["arena"][0]["bytes"] and row["calls"] == program["blocks"]["calls"]
    assert row["total"] == program["total"] >= row["arena"] + row["calls"]
    page = results["report"].rows()
    models = results["evaluate"]["models"]
    for key in ("file_bytes", "value", "right", "arena_bytes"):
        assert [row[key] for row in page] == [entry[key] for entry in models]
    damage = results["report"]["models"][1]["comparison"]["tensors"]
    assert [row["sqnr_db"] for row in results["report"].rows("tensors")] == [entry["sqnr_db"] for entry in damage]
    found = results["search"]
    assert {row["layer"]: row["policy"] for row in found.rows("map")} == found["map"]["layers"]
    small = nacre.convert(digits, policy="int8_from_float32", golden=2, batch=8)
    np.testing.assert_array_equal(results["run"]["outputs"][0]["array"], nacre.Program(small)(images[:40]))


def test_a_training_has_the_table_and_the_picture_of_its_epochs(digits, images, labels):
    tuned = nacre.tune(digits, 16 - images[:128], labels[:128], loss="softmax_cross_entropy", epochs=2, lr=1e-3)
    assert tuned.to_pandas()["loss"].tolist() == [epoch["loss"] for epoch in tuned.epochs]
    assert tuned.to_pandas("trained")["name"][0] == tuned.summary["trained"][0]["name"]
    assert list(tuned.plot().lines[0].get_ydata()) == [epoch["loss"] for epoch in tuned.epochs]
    assert "epochs" in tuned._repr_html_()


def test_what_is_not_there_is_told_in_a_sentence(results):
    with pytest.raises(ValueError, match=r"a result of size has no table 'layers': one of 'programs'"):
        results["size"].to_pandas("layers")
    with pytest.raises(ValueError, match="nothing to draw"):
        nacre.Result("eval", {"models": []}).plot()
    assert nacre.Result("eval", {}).tables == () and nacre.Result("export", {"taken": 1}).tables == ()


@pytest.mark.parametrize("method, package, extra", [("to_pandas", "pandas", "pandas"), ("plot", "matplotlib", "plot")])
def test_a_missing_package_is_named_with_its_extra(method, package, extra):
    program = f"""if True:
        import sys
        sys.modules[{package!r}] = None  # as if it was not installed
        import nacre
        try:
            nacre.kernels().{method}()
        except ImportError as error:
            print(error)"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{method} needs {package}: pip install 'nacre[{extra}]'\n" and ran.stderr == ""


def test_the_package_alone_imports_neither(digits):
    program = "import sys, nacre; nacre.kernels(); print({'pandas', 'matplotlib', 'tqdm'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_a_report_into_a_pipe_has_its_numbers(model):
    made = nacre.report(model, "/dev/null")
    assert made["page"] == "/dev/null" and made.rows()[0]["file_bytes"] == len(model.to_bytes())
