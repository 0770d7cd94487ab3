"""What the package raises and warns of."""

from __future__ import annotations


class Error(Exception):
    """A file, an option or a number that Nacre refuses, in the tool's own sentence: the place, the fact, the remedy.

    Wrong Python types and shapes of arrays are TypeError and ValueError.
    """

    exit_code: int
    """What the command `nacre` would exit with: 1 a check failed, 2 wrong usage, 3 bad input, 4 not supported, 5 I/O."""
    code: int | None
    """Of what the engine refused: the number of nacre::Code (engine/base/status.h). None: the tools refused it."""
    code_name: str
    """The name of that code, such as "SegmentCrc"; of the tools: failed, usage, bad_input, unsupported or io."""
    table: str | None
    """Of what the engine refused: which table of the model file it is in, such as "step"."""
    index: int | None
    """Of what the engine refused: the record in that table."""

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
        """The same with another sentence."""
        return Error(sentence, self.exit_code, self.code, self.code_name, self.table, self.index)


class Warning(UserWarning):
    """What the tool says on standard error and goes on after."""
