"""Prints the page "Error codes": each code of the library with sentence, cause and remedy, and the exit codes.

    docs/site/errors.py [--source CHECKOUT] > errors.md

Codes and their order are read from `enum class Code` in engine/base/status.h, sentences from engine/base/status.cc, the
words for places from the same file. Causes and remedies stand below. A code without them, or one that is no more, ends
the program with 1, so that the page cannot fall behind the library. Python 3.11 or newer, standard library only.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import textwrap

DAMAGED = "the file was cut, changed or never a model"
COPY = "copy it again, or convert again"
WRITER = "a writer of the file broke a rule of `schema/FORMAT.md`"
CHECK = "convert again with this version; if it stays, report it with the network"
STEP = "a step of the file does not fit its op"
NO_MEMORY = "give `sizes` of `measure` again; cut one block with `Memory::cut`"

# Title, first code, what its table and index are, cause and remedy of those that have no own ones.
GROUPS = (
    ("No error", "Ok", "", "", ""),
    ("The bytes of the file", "Null", "Found by `Model::open`, those of weights by `check_weights`. `index` is the segment, "
     "or the tensor.", DAMAGED, COPY),
    ("Tensors", "ElementType", "Found by `Model::open`. `index` is the tensor.", WRITER, CHECK),
    ("Quantizers", "Scale", "Found by `Model::open` and `check_weights`. `index` is the quantizer.", WRITER, CHECK),
    ("Steps and programs", "Entry", "Found by `Model::open`. `index` is the step, program or layer.", WRITER, CHECK),
    ("Kernels and shapes", "NoKernel", "Found by `measure` and `bind`. `index` is the step: `nacre inspect FILE --steps` "
     "shows it.", STEP, CHECK),
    ("Memory", "MemorySize", "Found by `bind`. `index` is the region, or 16 + the bank; of a port its place.", "", ""),
    ("Use", "NoEntry", "Found by `bind` and `run`. `index` is the program, or the kind of program.", "", ""),
    ("Training", "TrainingProgram", "Found by `Trainer`. `index` is the kind of program.", "", ""),
    ("Checkpoints", "StorageGranule", "Found by `Checkpoint` and `ModelSlots`. `index` is the slot.", "", ""),
    ("Ports", "Port", "`index` is the place; of a run that failed, the step.", "", ""),
    ("Later codes", "Layout", "New codes go last, so these belong to groups above.", "", ""),
)

# Cause and remedy by code; "" takes the group's.
CAUSES: dict[str, tuple[str, str]] = {
    "Ok": ("success", "none needed"),
    "Null": ("the span was empty, or the file was not read", "check what reads the file"),
    "TooSmall": ("", ""),
    "TooLarge": ("`Limits` of the caller allow fewer bytes", "raise the limit, or refuse the file"),
    "BaseAlignment": ("the buffer is not aligned", "`alignas(16)`, or map the file"),
    "Magic": ("another kind of file, such as the network itself", "give a file of `nacre convert`"),
    "ByteOrder": ("a big-endian machine", "none: little-endian machines alone"),
    "Version": ("library and converter differ in file version", "convert with the tool of this library"),
    "Feature": ("the file is of a newer library", "update the library, or convert with its tool"),
    "LengthOver": ("a transfer ended early", ""),
    "LengthUnder": ("something was appended, or padding of flash was counted", "give the bytes of the file alone"),
    "HeaderSize": ("", ""),
    "Crc": ("", ""),
    "FlatBuffer": ("", ""),
    "MissingField": ("", ""),
    "Count": ("`Limits` of the caller or of the build allow fewer", "raise the limit, or refuse the file"),
    "String": ("`Limits` of the caller allow shorter names", "raise the limit; `convert --strip-names` has none"),
    "Reserved": ("a newer writer, or damage", ""),
    "SegmentBounds": ("", ""),
    "SegmentAlignment": ("", ""),
    "SegmentCrc": ("", ""),
    "NotFinite": ("a weight is NaN: the source had it, or training made it", "look at the network's weights"),
    "Multiplier": ("", CHECK),
    "ElementType": ("", ""), "Region": ("", ""), "Rank": ("", ""), "Dim": ("", ""), "Overflow": ("", ""), "Bytes": ("", ""),
    "Bounds": ("", ""), "OffsetAlignment": ("", ""), "Order": ("", ""), "Overlap": ("", ""), "Lifetime": ("", ""),
    "AliasTarget": ("", ""), "AliasBounds": ("", ""), "Bank": ("", ""), "Quantizer": ("", ""), "Codes": ("", ""),
    "Initial": ("", ""), "Flags": ("", ""),
    "Scale": ("", ""), "ScaleCount": ("", ""), "ZeroPoint": ("", ""), "Axis": ("", ""),
    "Entry": ("", ""), "StepRange": ("", ""), "TensorRange": ("", ""), "WordRange": ("", ""), "OperandRange": ("", ""),
    "Layer": ("", ""), "Place": ("", ""), "Guard": ("", ""),
    "OpCode": ("the file has an op that this library does not know", "update the library"),
    "OperandId": ("", ""), "Role": ("", ""), "ReadBeforeWrite": ("", ""), "WrittenTwice": ("", ""), "NotLive": ("", ""),
    "InputOutput": ("", ""), "DuplicateInput": ("", ""), "OutputUnwritten": ("", ""), "Batch": ("", ""), "Policy": ("", ""),
    "Golden": ("", ""),
    "Work": ("`Limits` of the caller allow less work", "raise the limit, or refuse the file"),
    "Rounding": ("", ""),
    "NoKernel": ("the program links or passes too few kernels", "`nacre kernels FILE -o ..`; pass the reference last"),
    "OperandCount": ("", ""), "OperandType": ("", ""), "ShapeRank": ("", ""), "ShapeInput": ("", ""),
    "ShapeWeights": ("", ""), "ShapeBias": ("", ""), "ShapeScale": ("", ""), "ShapeOutput": ("", ""), "Groups": ("", ""),
    "Stride": ("", ""), "Padding": ("", ""), "Window": ("", ""), "AttributeAxis": ("", ""), "Permutation": ("", ""),
    "Elements": ("", ""), "Clamp": ("", ""), "Attribute": ("", ""), "AttributeZero": ("", ""),
    "Accumulator": ("a layer sums more terms than int32 holds", "keep this layer in float: `--set NAME=float32`"),
    "InPlace": ("", ""),
    "RowsUnsupported": ("`run` with fewer rows, where a step moves the batch", "run the whole batch, or convert with `--batch 1`"),
    "OperandMissing": ("", ""),
    "MemorySize": ("the block was sized for another model or other kernels", NO_MEMORY),
    "MemoryAlignment": ("the block is not aligned", "`alignas(16)` on the block"),
    "MemoryOverlap": ("two blocks, or a block and the model", NO_MEMORY),
    "NoEntry": ("a model that only infers was asked to train, or for another target", "`nacre inspect FILE`; convert with `--train`"),
    "NotBound": ("`run` or `start` came too early", "look at the status of `open` and `bind`"),
    "Rows": ("0 rows, or more than `--batch` of the conversion", "run in several parts, or convert with a larger `--batch`"),
    "Range": ("`run(first, last)` beyond the steps", "ask `step_count` first"),
    "Index": ("an id in an input, such as a word beyond the table", "look at the input: ids begin at 0"),
    "TrainingProgram": ("`Trainer` got a model of another maker", "convert with `--train LOSS`"),
    "NothingAccumulated": ("`commit` twice, or without a sample", "`accumulate` before each `commit`"),
    "LearningRate": ("a schedule gave NaN or less than 0", "look at the schedule"),
    "OneMicroBatch": ("`--update immediate` keeps no sums", "one `accumulate` each `commit`, or convert without it"),
    "StorageGranule": ("`Storage` does not describe the flash", "set `program_bytes` and `erase_bytes` as its data sheet says"),
    "StorageSize": ("half of the storage is less than the state", "`nacre size FILE --train`; give more, or train less"),
    "StorageFailed": ("the driver returned an error", "look at the driver, the disk or the folder"),
    "ReadBack": ("worn or locked flash, or a driver that lies", "erase before programming; replace the flash"),
    "NoCheckpoint": ("the first start", "go on: parameters are those of the file"),
    "CheckpointDamaged": ("power went at the first save, or the storage is damaged", "start from the file, and save"),
    "CheckpointModel": ("the storage holds another network", "give the model that it was saved with"),
    "ConfirmTorn": ("power went while `confirm` wrote", "save again"),
    "Port": ("`ports` has a null, or an incomplete one, at a place", "complete the port, or leave the place null"),
    "PortFailed": ("the device failed", "ask the port: `Device::sentence()`"),
    "Layout": (WRITER, CHECK),
    "Argument": ("C alone: a NULL, or `size` of a struct is not set", "`index` is the argument, from 0; set `.size = sizeof x`"),
    "NoName": ("a name or index that the model does not have", "`nacre inspect FILE` lists them"),
}

# Exit codes of the command: ExitCode of tools/base/error.h.
EXITS = {
    "kSuccess": ("it is done", "the command did its work", "none needed"),
    "kFailed": ("a check failed, or training did not work", "a golden pair differs, `--max-drop` is exceeded, a loss is NaN",
                "read the sentence; the check did its work"),
    "kUsage": ("wrong usage", "an option that is unknown, missing, or against another", "`nacre COMMAND --help`"),
    "kBadInput": ("bad input", "a file is damaged, or data do not fit the model", "the sentence names place and remedy"),
    "kUnsupported": ("not supported", "an operator, a policy or instructions that are not there",
                     "`nacre inspect NETWORK` lists all; `docs/limits.md`"),
    "kIo": ("reading or writing failed", "no such file, no permission, a full disk, a closed pipe", "mend it, and run again"),
}


def fail(what: str) -> None:
    raise SystemExit(f"errors.py: {what}")


def block(text: str, start: str) -> str:
    found = re.search(re.escape(start) + r"(.*?)\};", text, re.S)
    if found is None:
        raise SystemExit(f"errors.py: {start!r} is not there any more")
    return found[1]


def literals(body: str) -> list[str]:
    """C++ strings, neighbours joined, comments left out."""
    body = re.sub(r"//[^\n]*", "", body)
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', entry))
            for entry in re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', body)]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def page(root: pathlib.Path) -> str:
    header = (root / "engine/base/status.h").read_text(encoding="utf-8")
    source = (root / "engine/base/status.cc").read_text(encoding="utf-8")
    codes = re.findall(r"^\s*k(\w+)(?: = 0)?,?", re.sub(r"//[^\n]*", "", block(header, "enum class Code : uint8_t {")), re.M)
    if codes.pop() != "CodeCount":
        fail("enum class Code does not end in kCodeCount")
    sentences = literals(block(source, "kSentences[] = {"))
    if len(sentences) != len(codes):
        fail(f"{len(codes)} codes, and {len(sentences)} sentences")
    if set(codes) != set(CAUSES):
        fail(f"cause and remedy are missing or of no code: {sorted(set(codes) ^ set(CAUSES))}")
    starts = [codes.index(first) for _, first, *_ in GROUPS] + [len(codes)]
    parts = []
    for (title, _, where, cause, remedy), begin, end in zip(GROUPS, starts, starts[1:]):
        rows, own = [], False
        for number in range(begin, end):
            own_cause, own_remedy = CAUSES[codes[number]]
            if not (own_cause or cause) or not (own_remedy or remedy):
                fail(f"k{codes[number]} has no cause or no remedy")
            own |= bool(own_cause or own_remedy)
            rows.append([str(number), f"`k{codes[number]}`", sentences[number], own_cause or cause, own_remedy or remedy])
        head = ["code", "name", "sentence", "cause", "remedy"]
        if not own:  # one cause and one remedy for all: they stand above the table
            where += f"\n\n- Cause: {cause}.\n- Remedy: {remedy}."
            head, rows = head[:3], [row[:3] for row in rows]
        parts.append(f"## {title}\n\n" + (f"{where}\n\n" if where else "") + table(head, rows))
    exits = re.findall(r"(k\w+) = (\d)", block((root / "tools/base/error.h").read_text(encoding="utf-8"), "enum ExitCode {"))
    if [name for name, _ in exits] != list(EXITS):
        fail("ExitCode of tools/base/error.h has other names")
    exit_rows = [[number, *EXITS[name]] for name, number in exits]
    places = enumerate(literals(block(source, "kTables[] = {")))
    names = textwrap.fill("`table` is one of: " + ", ".join(f"{number} {name}" for number, name in places if name) + ".", 150)
    newline = "\n\n"
    return f"""# Error codes

A call of the library, or a command, was refused: which fact was wrong, where, and what to do about it?
`docs/site/errors.py` prints this page from `engine/base/status.h` and `engine/base/status.cc`.

## Of the command

Each refusal is one sentence on standard error: the place, the fact, and below it the remedy. The exit code says of which kind it is.

{table(["exit code", "meaning", "causes", "remedy"], exit_rows)}

`nacre inspect NETWORK` of an ONNX, TFLite or Keras file ends as `nacre convert` would:
0 it converts, 4 something in it is not supported, 3 the file is broken.
In Python a refusal is a `nacre.Error` with this number as `exit_code`.

## Of the library

A call returns a `Status`: `code`, `table` and `index` of the record, and `needed` and `given` where two numbers tell the story.
C has the same fields in `nacre_status`. `nacre::sentence(code)`, in C `nacre_sentence(code)`, gives the sentence below.
A build with `-Dsentences=false` gives "", and the numbers stay. Codes are never renumbered; new ones go last.

{names}

{newline.join(parts)}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="the checkout [that of this file]")
    sys.stdout.write(page(parser.parse_args().source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
