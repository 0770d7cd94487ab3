#!/usr/bin/env python3
"""Shows that the package reaches every command and every option of the tool: whole.py TOOL

The commands are those of the tool's help, and the options those of its own table. Each option is given to a function of
the package, by a keyword that the function's type has, and must come out among the words of the command. Each command
runs once for real from Python and once as the tool; both results are equal but for times and paths. Seeded gaps are
found. Prints the counts as one JSON object, or what is wrong, and ends with 1.
"""

import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import warnings

import nacre
import whole_results
from nacre import _commands, _native, _spelling

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tools" / "samples"
# Commands and options that are left to the command line, with the reason.
LEFT_OUT = {
    "completions": "writes a script for a shell",
    "man": "writes pages for the program man; help() shows the docstrings",
    "kernels --output": "Model.kernels_header returns the text of the file",
}
# A legal value of each form that the table names; other forms are lists of choices, of which the first is legal.
LEGAL = {
    "N": 3,
    "X": 0.5,
    "D": 0.25,
    "P": 99.5,
    "M": 0.9,
    "T": 100,
    "RANK": 2,
    "STEPS": 10,
    "BYTES": 65536,
    "FILE": "some.file",
    "DIR": "some_folder",
    "DATA": "samples.npy",
    "MODEL": "some.nacre",
    "NAME": "pixels",
    "OUTPUT": "probabilities",
    "METRIC": "top1",
    "LOSS": "huber",
    "POLICY": "float16",
    "TARGET": "arm/m4",
    "PASS": "simplify",
    "LEVEL": "UNSAFE_FORCE_ALL",
    "RULE": "jmp",
    "OPS": "Conv",
    "PATTERN": "fc.*",
    "TARGET,...": ["host", "arm/m4"],
    "POLICY,...": "float32,float16",
    "LAYER,...": "fc,conv1",
    "OP,...": "Conv,Gemm",
    "NAME=SIZES": {"pixels": (1, 1, 8, 8)},
    "IN=OUT": {"state": "stateN"},
    "NAME=BYTES,...": "tcm=8K,sram=512K",
    "INPUT=MEAN,STD": {"pixels": "0,1"},
    "PATTERN=POLICY": {"fc.*": "float16"},
    "PATTERN=METHOD": {"fc.*": "mse"},
    "PATTERN=SHARE|FIRST:END": {"fc.*": "0.5"},
    "NAME=FILE": "pixels=some.npy",
    "NAME[,FIELD=X]": "adam,beta1=0.8",
    "LOSS[,FIELD=X]": "huber,delta=0.5",
    "[keras=]FILE": "policy.json",
    "FILE|NAME": "labels.npy",
    "FRACTION|ROWS.npy": 0.25,
    "dynamic=X": "dynamic=0.5",
    "xnnpack=STEPS": "xnnpack=10",
    "auto|N|NxM[@LAYER]": "2x2",
    "division|gelu|silu|hard_swish|bias,...": "division,silu",
    "auto|none|fixed=S|dynamic[=S][,FIELD=X]": "dynamic=128",
}
faults: list[str] = []
legal_words: dict[str, list[str]] = {}  # of an option that a keyword reaches, the words of that call


class Captured(Exception):
    """Ends a command in place of its work. `words` are those that it was given."""

    def __init__(self, words):
        self.words = [os.fsdecode(word) for word in words]


def words_of(function, *arguments, **options):
    """Returns the words of the command that a function would run."""

    def capture(words, *_):
        raise Captured(words)

    real, _native.run = _native.run, capture
    try:
        function(*arguments, **options)
    except Captured as captured:
        return captured.words
    finally:
        _native.run = real
    raise SystemExit(f"whole: {function} runs no command")


def keywords_of(function):
    """Returns the keywords that the type of a function has: its parameters, and the options of its TypedDict."""
    options = typing.get_type_hints(function).get("options")
    typed = typing.get_args(options)[0].__annotations__ if options else {}
    return {*inspect.signature(function).parameters, *typed}


def legal_value(option):
    value = option["value"]
    if not value:
        return True
    if value in LEGAL:
        return LEGAL[value]
    if "|" in value and re.fullmatch(r"[a-z0-9_/|]+", value):
        return value.split("|")[0]
    raise SystemExit(f"whole: no legal value is known of the form {value!r} of --{option['name']}")


def texts_of(value):
    """Returns the words that a value becomes, written without the package's own translation."""
    if isinstance(value, dict):
        return [f"{key}={'x'.join(map(str, each)) if isinstance(each, tuple) else each}" for key, each in value.items()]
    return [str(each) for each in (value if isinstance(value, list) else [value])]


def reached(command, option, calls):
    """Returns whether a function of the package gives the command this option, of its own or by a keyword."""
    name, value = "--" + option["name"], legal_value(option)
    keyword = _spelling.keyword_of(option["name"])
    wanted = [name] if value is True else [f"{name}={text}" for text in texts_of(value)]
    wrong = []
    for function, arguments in calls:
        words = words_of(function, *arguments)
        if words[0] == command and any(word.split("=")[0] == name for word in words):
            return True
    for function, arguments in calls:
        if keyword not in keywords_of(function):
            continue
        given = words_of(function, *arguments, **{keyword: value})
        if given[0] == command and [word for word in given if word.split("=")[0] == name] == wanted:
            legal_words[f"{command} {name}"] = given
            return True
        wrong.append(f"{function.__name__}({keyword}={value!r}) gives the words {given}")
    faults.extend(wrong)
    return False


def unreached(table, calls):
    """Returns the commands without a function, and the options that no function reaches."""
    found = []
    for command, about in table.items():
        if command not in calls:
            found.append(command)
            continue
        options = about["options"]
        found += [f"{command} --{each['name']}" for each in options if not reached(command, each, calls[command])]
    return found


def calls_of(model, trains):
    """Returns the functions of each command with arguments, of which nothing is read before the command runs."""
    network, data, keras = "net.onnx", ("x.npy", "y.npy"), b"PK\x03\x04 of Keras"
    trainer = nacre.Trainer(trains)
    return {
        "convert": [(nacre.convert, (network,)), (nacre.graph, (network,))],
        "policies": [(nacre.policies.names, ()), (nacre.policies.resolve, ("float16",))],
        "search": [(nacre.search, (network, *data))],
        "inspect": [(nacre.inspect, (network,)), (model.inspect, ()), (model.picture, ()), (model.summary, ())],
        "size": [(nacre.size, (model,)), (model.size, ())],
        "check": [(model.check, ())],
        "kernels": [(nacre.kernels, ()), (model.kernels_header, ())],
        "run": [(model.run, ("x.npy",))],
        "bench": [(model.bench, ())],
        "compare": [(nacre.compare, (model, model, "x.npy")), (model.compare, (model, "x.npy"))],
        "eval": [(nacre.evaluate, (model, *data)), (model.evaluate, data)],
        "report": [(nacre.report, (SAMPLES / "digits.onnx", "r.html")), (nacre.report, ([model, model], "r.html"))],
        "tune": [(nacre.tune, (network, *data))],
        "export": [
            (nacre.export, (trains, "ck")),
            (nacre.export_network, (trains, "ck", SAMPLES / "digits.onnx", "t.onnx")),
            (nacre.export_network, (trains, "ck", write("net.keras", keras), "t.keras")),
            (trainer_export(trainer), ()),
        ],
        "firmware": [(model.firmware, ("out",))],
        "doctor": [(nacre.doctor, ())],
    }


def write(name, data):
    pathlib.Path(name).write_bytes(data)
    return name


def trainer_export(trainer):
    """Returns Trainer.export with an option, because without any it runs no command."""

    def export(**options: typing.Unpack[nacre._keywords.ExportOptions]) -> nacre.Model:
        return trainer.export(**{"any_training": True, **options})

    return export


def check_values(tool):
    """Checks that the parser of the command line takes the values above. Files of these calls are gone, so the tool
    refuses most calls for other reasons, behind its parser."""
    for option, words in legal_words.items():
        said = subprocess.run([tool, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr
        if re.search(r"see: nacre [a-z]+ --help", said):
            faults.append(f"{option}: the value is not legal: {said}")


def commands_of_help(tool):
    said = subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^  ([a-z]+) {2,}\S", said.partition("Options:")[2], flags=re.MULTILINE)


def seeded(table, calls):
    """Checks that gaps are found: an option that the types lack, a function that is gone, a new command."""
    option = {"name": "seeded", "value": "N", "many": False, "reads": False}
    more = {"eval": {"options": [*table["eval"]["options"], option]}}
    few = {"inspect": [each for each in calls["inspect"] if each[0].__name__ != "picture"]}
    cases = [
        (more, calls, ["eval --seeded"]),
        ({"inspect": table["inspect"]}, few, ["inspect --svg"]),
        ({"check": table["check"], "seeded": {"options": []}}, calls, ["seeded"]),
    ]
    for its_table, its_calls, gap in cases:
        found = unreached(its_table, its_calls)
        if found != gap:
            faults.append(f"a seeded gap {gap} is not found: {found}")
    return len(cases)


def main():
    tool = os.path.abspath(sys.argv[1])
    warnings.simplefilter("ignore", nacre.Warning)  # the tool prints the same warnings
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        model = nacre.convert(SAMPLES / "digits.onnx")
        trains = nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy")
        table, calls = _commands.table(), calls_of(model, trains)
        named = commands_of_help(tool)
        faults.extend(f"{name} is in the tool's help alone" for name in named if name not in {*table, *LEFT_OUT})
        faults.extend(f"{name} is not in the tool's help" for name in table if name not in named)
        gaps = unreached(table, calls)
        faults.extend(f"{gap}: no function of the package reaches it" for gap in gaps if gap not in LEFT_OUT)
        kept = [name for name in LEFT_OUT if name not in gaps and name not in named]
        faults.extend(f"{name} is left out by a reason, and is reached" for name in kept)
        check_values(tool)
        gaps_found = seeded(table, calls)
        counts = whole_results.compare_results(tool, faults)
        faults.extend(f"{name} is not run" for name in table if name not in counts)
        os.chdir(ROOT)
    if faults:
        print("\n".join(faults))
        return 1
    options = sum(len(about["options"]) for about in table.values())
    told = {
        "commands": len(table),
        "options": options - len(gaps),
        "by keyword": len(legal_words),
        "left out": [name for name in LEFT_OUT if name in gaps or name in named],
        "equal results": sum(counts.values()),
        "seeded gaps": gaps_found,
    }
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
