"""Progress of long calls: a bar below a notebook's cell, or on a terminal if tqdm is installed; elsewhere nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

Progress = Callable[[str, int, int], object]

chosen: Progress | None = None
"""The function of nacre.set_progress, called with what is under way, how much of it is done, and of how much."""

AFTER_SECONDS = 0.5  # a call shows no bar before
DUMB = "dumb"  # value of TERM for a terminal that cannot go back in a line


class Bar(Protocol):
    """A bar of one call. `hide` leaves the place to other output until the next step, `clear` ends the bar."""

    def __call__(self, what: str, done: int, total: int) -> None: ...

    def hide(self) -> None: ...

    def clear(self) -> None: ...


def bar() -> Bar | None:
    """Returns the bar for a call that begins: none if a function was chosen, or if there is no place to show one."""
    if chosen is not None:
        return None
    if _in_notebook():
        return _NotebookBar()
    return _TerminalBar() if _on_terminal() and _has_tqdm() else None


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    import IPython  # type: ignore[import-not-found, unused-ignore]

    shell = IPython.get_ipython()  # type: ignore[no-untyped-call, attr-defined, unused-ignore]
    return type(shell).__name__ == "ZMQInteractiveShell"


def _on_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != DUMB
    except ValueError:  # it is closed
        return False


def _has_tqdm() -> bool:
    try:
        import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        return False
    return True


class _NotebookBar:
    """Shows a line below the cell once a call has taken more than half a second."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._first = time.monotonic() + AFTER_SECONDS

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._shown is None and time.monotonic() < self._first:
            return
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        text = f"{what} <progress value={done} max={total}></progress> {done} of {total}"
        line = HTML(text)  # type: ignore[no-untyped-call, unused-ignore]
        if self._shown is None:
            self._shown = display(line, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
        else:
            self._shown.update(line)

    def hide(self) -> None:
        """Does nothing: other output has lines of its own in a notebook."""

    def clear(self) -> None:
        if self._shown is not None:
            from IPython.display import HTML

            self._shown.update(HTML(""))  # type: ignore[no-untyped-call, unused-ignore]


class _TerminalBar:
    """Shows a bar of tqdm on standard error once a call has taken more than half a second. Nothing of it stays.
    tqdm ends the bar, and not the call, if the terminal hangs up."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._what = ""
        self._first = time.monotonic() + AFTER_SECONDS

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is None and time.monotonic() < self._first:
            return
        if self._bar is not None and (what != self._what or done < self._bar.n):
            self.clear()
        if self._bar is None:
            options = {"initial": done, "leave": False, "delay": 1e-9}  # a delay: nothing is shown before refresh
            self._bar, self._what = _tqdm()(desc=what, total=total, file=sys.stderr, **options), what
        self._bar.total, self._bar.n = total, done
        self._bar.refresh()

    def hide(self) -> None:
        if self._bar is not None:
            self._bar.clear()

    def clear(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


def _tqdm() -> Any:
    """Returns the class of tqdm's bars without the thread that watches them."""
    import tqdm

    class Quiet(tqdm.tqdm):  # type: ignore[misc, unused-ignore]
        monitor_interval = 0

    return Quiet
