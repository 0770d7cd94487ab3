"""Shared by the makers of tests/exports/: a network as PyPI's libraries build it, random weights, and its exports.

    Network("resnet", lambda: models.resnet18(), [image(64)])

is exported by both of torch's exporters; one of half=True as .half() too, and one with open_axes={"x": {2: "height"}}
also with those axes open. Beside NAME.EXPORTER[.half|.open].onnx stands a .npz of the inputs and of what onnxruntime
makes of them.
"""
import argparse
import contextlib
import copy
import dataclasses
import fnmatch
import io
import logging
import pathlib
import re
import sys
import time
import typing
import warnings
import zlib

import numpy as np
import onnx
import onnxruntime
import torch

torch.manual_seed(1)  # for the inputs
OLDEST, NEWEST = 13, 20  # opsets of the exporter that traces


@dataclasses.dataclass
class Network:
    name: str
    build: typing.Callable[[], torch.nn.Module]
    inputs: list
    names: tuple = ("x", "y", "z")
    open_axes: dict = dataclasses.field(default_factory=dict)
    half: bool = False
    opset: int = OLDEST  # the oldest that has its operators

    def input_names(self):
        return list(self.names[: len(self.inputs)])


def image(size, channels=3):
    return torch.rand(1, channels, size, size)


def noise(*dims):
    return torch.randn(*dims)


def ids(limit, *dims):
    return torch.randint(0, limit, dims)


def unsettle(module):
    """Changes a fresh network to look trained: no parameter is one number everywhere, statistics fit some data."""
    with torch.no_grad():
        for name, statistic in module.named_buffers():
            if name.endswith("running_mean"):
                statistic.normal_(0, 0.1)
            if name.endswith("running_var"):
                statistic.uniform_(0.5, 1.5)
        for parameter in module.parameters():
            if parameter.numel() > 1 and (parameter == parameter.flatten()[0]).all():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return module


class Exporter:
    """EXPORTER[.half|.open]: how a network becomes a file."""

    def __init__(self, network, index, dynamo, form=""):
        self.network, self.dynamo, self.form = network, dynamo, form
        self.opset = max(network.opset, OLDEST + index % (NEWEST - OLDEST + 1))
        if dynamo:
            self.opset = 20 if index % 4 == 3 else 18

    def name(self):
        return self.network.name + (".dynamo" if self.dynamo else ".trace") + (f".{self.form}" if self.form else "")

    def module(self):
        torch.manual_seed(zlib.crc32(self.network.name.encode()))
        module = unsettle(self.network.build()).eval()
        return module.half() if self.form == "half" else module

    def inputs(self):
        to_half = self.form == "half"
        return tuple(x.half() if to_half and x.is_floating_point() else x for x in self.network.inputs)

    def axes(self):
        """Returns for every input {axis: symbol}."""
        return [dict(self.network.open_axes.get(name, {})) for name in self.network.input_names()]

    def export(self, module, path, outputs):
        how = dict(input_names=self.network.input_names(), output_names=outputs, opset_version=self.opset)
        if self.dynamo and self.form == "open":
            how["dynamic_shapes"] = tuple(axes or None for axes in self.axes())
        elif self.form == "open":
            how["dynamic_axes"] = dict(zip(self.network.input_names(), self.axes()))
        if self.dynamo:
            how.update(external_data=False, verbose=False)
        torch.onnx.export(module, self.inputs(), str(path), dynamo=self.dynamo, **how)

    def write(self, folder):
        path = folder / (self.name() + ".onnx")
        if path.with_suffix(".npz").exists():
            return
        module, inputs = self.module(), self.inputs()
        with torch.no_grad():
            made = copy.deepcopy(module)(*inputs)
        made = {f"out{i}": y.numpy() for i, y in enumerate(made if isinstance(made, (tuple, list)) else [made])}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.export(module, path, list(made))
        given = dict(zip(self.network.input_names(), (x.numpy() for x in inputs)))
        np.savez(path.with_suffix(".npz"), **answers(path, given, made))


def answers(path, given, by_torch):
    """in.NAME and out.NAME: what onnxruntime makes of the file, or torch itself where onnxruntime has no kernel."""
    graph = onnx.load(path, load_external_data=False).graph
    given = {x.name: given[x.name] for x in graph.input}
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        made = dict(zip((y.name for y in graph.output), session.run(None, given)))
    except Exception as error:  # onnxruntime raises errors of many classes
        print(f"  onnxruntime does not run {path.name}: {str(error)[:200]}", file=sys.stderr)
        made = by_torch
    return {"in." + name: x for name, x in given.items()} | {"out." + name: y for name, y in made.items()}


def plain(error):
    """Returns the error's words without terminal colours and line breaks."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())


def exporters(networks):
    for form, wanted in (("", lambda n: True), ("half", lambda n: n.half), ("open", lambda n: n.open_axes)):
        for dynamo in (False, True):
            for index, network in enumerate(networks):
                if wanted(network):
                    yield Exporter(network, index, dynamo, form)


def make(networks, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=pathlib.Path, help="where the files go; those that are there already stay")
    parser.add_argument("pattern", nargs="?", default="*", help="only files whose name without .onnx it fits")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # else a layer is one operator that no exporter knows
    failed = arguments.folder / "not_exported.txt"
    for each in exporters(networks):
        if not fnmatch.fnmatch(each.name(), arguments.pattern):
            continue
        begun = time.monotonic()
        try:
            each.write(arguments.folder)
        except Exception as error:  # the exporter cannot make this file
            (arguments.folder / (each.name() + ".onnx")).unlink(missing_ok=True)
            with failed.open("a") as lines:
                lines.write(f"{each.name()}: {type(error).__name__}: {plain(error)[:300]}\n")
            print(f"  {each.name()} was not exported: {type(error).__name__}", file=sys.stderr)
        if time.monotonic() - begun > 30:
            print(f"  {each.name()}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
