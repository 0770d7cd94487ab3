"""The lock of a Program or a Trainer: only one call at a time touches its memory."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from ._error import Error


class Calls:
    """with self._calls: ...   Other threads wait. Raises nacre.Error if waiting would never end: in a call inside
    another call of the same thread, and in a process that os.fork made while another thread was in a call, or if
    several threads share the object's work.

    what: the object whose calls these are, for the error's text. threads: the number that share its work.
    """

    def __init__(self, what: str, threads: int) -> None:
        lock = threading.RLock()
        self._acquire, self._release = lock.acquire, lock.release
        self._is_owned: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]
        self._what = what
        self._threads = threads
        self._lost = ""
        _all.add(self)

    def __enter__(self) -> None:
        if self._lost or self._is_owned():
            self._refuse()
        try:
            self._acquire()
        except BaseException:  # such as KeyboardInterrupt, which may come just after the lock was acquired
            if self._is_owned():
                self._release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _refuse(self) -> NoReturn:
        if self._lost:
            raise Error(f"{self._what} was made before os.fork, {self._lost}: make another one in this process", 2)
        raise Error(
            f"{self._what} is in the middle of a call of this thread, and takes no other from a signal's handler or"
            " from an array that is being read",
            2,
        )

    def _forked(self) -> None:
        """Runs in the new process, whose only thread is the one that called os.fork."""
        if self._acquire(blocking=False):
            self._release()
        else:
            self._lost = "in the middle of another thread's call"
        if self._threads > 1:
            self._lost = f"and its {self._threads} threads stayed behind"


_all: weakref.WeakSet[Calls] = weakref.WeakSet()


def _after_fork() -> None:
    for calls in list(_all):
        calls._forked()


os.register_at_fork(after_in_child=_after_fork)
