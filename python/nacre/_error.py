"""The exception and the warning of the package."""

from __future__ import annotations


class Error(Exception):
    """Says that Nacre refuses a file, an option or a number. The text is the tool's: the place, the fact, the remedy.

    Wrong Python types and shapes of arrays are TypeError and ValueError.
    """

    exit_code: int
    """Exit code of the command `nacre` for it: 1 a check failed, 2 wrong usage, 3 bad input, 4 not supported, 5 I/O."""
    code: int | None
    """Number of nacre::Code (engine/base/status.h) if the engine refused; None if the tools did."""
    code_name: str
    """Name of that code, such as "SegmentCrc"; failed, usage, bad_input, unsupported or io if the tools refused."""
    table: str | None
    """Table of the model file that the engine refused, such as "step"."""
    index: int | None
    """Record in that table that the engine refused."""

    def __init__(
        self,
        sentence: str,
        exit_code: int = 1,
        code: int | None = None,
        code_name: str = "failed",
        table: str | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.code = code
        self.code_name = code_name
        self.table = table
        self.index = index

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        return Error, (str(self), self.exit_code, self.code, self.code_name, self.table, self.index)

    def replaced(self, sentence: str) -> Error:
        """Returns this error with another sentence."""
        return Error(sentence, self.exit_code, self.code, self.code_name, self.table, self.index)


class Warning(UserWarning):
    """A sentence that the tool would print on standard error before it continues."""
