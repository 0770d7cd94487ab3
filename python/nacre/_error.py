"""The exception and the warning of the package."""

from __future__ import annotations


class Error(Exception):
    """Tells that Nacre refuses a file, an option or a number.

    The text is the tool's sentence: the place, the fact, the remedy. Wrong types of Python raise TypeError instead, and
    wrong shapes of arrays ValueError.

    Parameters
    ----------
    sentence : str
        Text of the exception.
    exit_code, code, code_name, table, index
        Values of the attributes with these names.

    Attributes
    ----------
    exit_code : int
        Exit code of the command `nacre` for it: 1 a check failed, 2 wrong usage, 3 bad input, 4 not supported, 5
        reading or writing failed.
    code : int or None
        Number of `nacre::Code` (`engine/base/status.h`) if the engine refused; None if the tools did.
    code_name : str
        Name of that code, such as "SegmentCrc". If the tools refused: "failed", "usage", "bad_input", "unsupported" or
        "io".
    table : str or None
        Table of the model file that the engine refused, such as "step".
    index : int or None
        Record in that table that the engine refused.

    Examples
    --------
    >>> import nacre
    >>> try:
    ...     nacre.convert("tools/samples/digits.onnx", policy="int9")
    ... except nacre.Error as error:
    ...     print(error.exit_code, error.code_name, error.code)
    2 usage None
    """

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
        """Returns this error with another sentence.

        Parameters
        ----------
        sentence : str
            Text of the new exception.

        Returns
        -------
        Error
            A new exception with the same attributes.

        Examples
        --------
        >>> import nacre
        >>> nacre.Error("too large", exit_code=3).replaced("x: too large").exit_code
        3
        """
        return Error(sentence, self.exit_code, self.code, self.code_name, self.table, self.index)


class Warning(UserWarning):
    """Tells that something is wrong, but that the call goes on.

    Examples are a slot of a checkpoint that is not whole, a loss that only rose, and a layer that int8 codes damage.

    Notes
    -----
    Notices that tell of nothing wrong are log records of the logger "nacre", at the level INFO.

    Examples
    --------
    >>> import warnings
    >>> import nacre
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", nacre.Warning)  # raises them as exceptions
    ...     model = nacre.convert("tools/samples/digits.onnx")
    """
