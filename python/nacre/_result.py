"""Results of commands: a dict of JSON that becomes a DataFrame or a picture."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _result_plots, _result_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from pandas import DataFrame as DataFrame
else:
    Axes = DataFrame = object  # both packages are optional, and are imported by the first call that needs them

_MOST_ROWS = 40  # of the table in a notebook


class Result(dict[str, Any]):
    """The result of a command: the dict that its `--json` prints, with tables and a picture of it.

    Methods such as `nacre.evaluate` and `Model.size` return it. Its keys are those of the command.

    Parameters
    ----------
    command : str
        Name of the command, such as "eval".
    values : dict
        The command's JSON.

    Notes
    -----
    A copy of `copy`, of the module `copy` and of `pickle` is a `Result` too. `to_pandas` needs the package pandas and
    `plot` needs matplotlib: `pip install 'nacre[pandas,plot]'`.

    Examples
    --------
    >>> import nacre
    >>> size = nacre.convert("tools/samples/digits.onnx").size("arm/m4")
    >>> size["machine"], size.tables
    ('arm/m4', ('programs',))
    >>> size.to_pandas()["entry"].tolist()
    ['infer']
    """

    def __init__(self, command: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._command = command

    def __reduce__(self) -> tuple[type[Result], tuple[str, dict[str, Any]]]:
        return Result, (self._command, dict(self))

    @property
    def command(self) -> str:
        """Returns the name of the command.

        Returns
        -------
        str
            Name of the command that made this result.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").check().command
        'check'
        """
        return self._command

    def copy(self) -> Result:
        """Returns a copy, whose values are the same objects.

        Returns
        -------
        Result
            Another dict with the same keys.

        Examples
        --------
        >>> import nacre
        >>> size = nacre.convert("tools/samples/digits.onnx").size()
        >>> size.copy() == size, size.copy() is size
        (True, False)
        """
        return Result(self._command, self)

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the names of the tables that `rows` and `to_pandas` take.

        Returns
        -------
        tuple of str
            Names of tables. The first is the one that they take without a name.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").inspect().tables
        ('layers', 'steps', 'tensors', 'programs')
        """
        return tuple(_result_tables.tables_of(self._command, self))

    def rows(self, table: str | None = None) -> list[dict[str, Any]]:
        """Returns the rows of a table.

        Parameters
        ----------
        table : str, optional
            Name of the table, one of `tables`. If left out, the first.

        Returns
        -------
        list of dict
            One dict for each row, by column.

        Raises
        ------
        ValueError
            There is no table of this name.

        Examples
        --------
        >>> import nacre
        >>> inspected = nacre.convert("tools/samples/digits.onnx").inspect()
        >>> inspected.rows("layers")[1]["layer"]
        'conv1'
        """
        tables = _result_tables.tables_of(self._command, self)
        name = next(iter(tables), "") if table is None else table
        if name not in tables:
            there = f"one of {', '.join(map(repr, tables))}" if tables else "this one has none"
            raise ValueError(f"a result of {self._command} has no table {name!r}: {there}")
        return tables[name]

    def to_pandas(self, table: str | None = None) -> DataFrame:
        """Returns a table as a DataFrame of pandas.

        Parameters
        ----------
        table : str, optional
            Name of the table, one of `tables`. If left out, the first.

        Returns
        -------
        pandas.DataFrame
            A row for each dict of `rows`.

        Raises
        ------
        ImportError
            pandas is not installed.
        ValueError
            There is no table of this name.

        Examples
        --------
        >>> import nacre
        >>> layers = nacre.convert("tools/samples/digits.onnx").inspect().to_pandas()
        >>> int(layers["weight_bytes"].sum()) > 80000
        True
        """
        rows = self.rows(table)
        try:
            import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install 'nacre[pandas]'") from error
        return pandas.DataFrame.from_records(rows)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draws the picture that belongs to the command.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw in. If left out, those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. `plot().figure.savefig("picture.png")` writes the picture.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        ValueError
            The result has nothing to draw.

        Notes
        -----
        Pictures: accuracy against bytes of `evaluate`, `search` and `report`, error by layer of `compare`, bytes of
        each part of `size`, bytes by layer of `inspect`, error of each golden pair of `check`, loss by epoch of `tune`,
        time by op or run of `bench` and `run`, number of kernels of `kernels`, facts by state of `doctor`.

        Examples
        --------
        >>> import matplotlib
        >>> import nacre
        >>> matplotlib.use("agg")
        >>> nacre.convert("tools/samples/digits.onnx").inspect().plot().get_xlabel()
        'bytes'
        """
        drawn: Axes = _result_plots.plot(self._command, self, axes)
        return drawn

    def _repr_html_(self) -> str:
        tables = _result_tables.tables_of(self._command, self)
        facts = "".join(
            f"<tr><th>{html.escape(str(key))}</th><td>{html.escape(str(value))}</td></tr>"
            for key, value in self.items()
            if isinstance(value, (str, int, float)) and not isinstance(value, bool)
        )
        text = f"<p><b>nacre {html.escape(self._command)}</b></p><table>{facts}</table>"
        for name, rows in list(tables.items())[:1]:
            text += f"<p>{html.escape(name)}</p>" + _html_table(rows)
        return text


def _html_table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    shown = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(row.get(column)))}</td>" for column in columns) + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = f"<p>{len(rows) - _MOST_ROWS} more rows</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><tr>{head}</tr>{shown}</table>{more}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
