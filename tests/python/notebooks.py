#!/usr/bin/env python3
"""Runs every notebook of python/notebooks in its folder, from the first cell to the last; notebooks.py

Fails where a cell does, or where a stored notebook has outputs. Prints the counts as one JSON object.
"""

import json
import pathlib
import sys
import time

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python" / "notebooks"


def main() -> int:
    cells, began = 0, time.monotonic()
    paths = sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        if any(cell.outputs or cell.execution_count for cell in code):
            raise SystemExit(f"notebooks: {path.name} holds outputs: clear them")
        NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
        ).execute()
        if any(output.output_type == "error" for cell in code for output in cell.outputs):
            raise SystemExit(f"notebooks: a cell of {path.name} failed")
        cells += len(code)
    print(json.dumps({"notebooks": len(paths), "cells": cells, "seconds": round(time.monotonic() - began)}))
    return 0 if paths else 1


if __name__ == "__main__":
    sys.exit(main())
