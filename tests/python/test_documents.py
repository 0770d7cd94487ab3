"""Every block of Python in README.md and docs/python.md runs, in a folder that has the checkout's tools/."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_blocks_of_python_run(page, tmp_path):
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        ran = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
