"""What a statement gives back: rows in any form that Python has, or a status and an SCN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from midstream.errors import Error, Unsupported
from midstream.ingest.arrow_types import arrow_type, to_rows
from midstream.ingest.printed import plain
from midstream.types import TEXT, Type

Row = tuple[Any, ...]


class Changes(Protocol):
    """What a subscription hands out."""

    def __iter__(self) -> Iterator[Any]: ...

    def poll(self, timeout: float | None = 0.0) -> list[Any]: ...

    def close(self) -> None: ...


class Result:
    """Rows are kept as Arrow and turned into Python values when they are asked for."""

    def __init__(
        self,
        *,
        status: str,
        scn: int,
        table: pa.Table | None = None,
        types: Sequence[Type] = (),
        notices: Sequence[str] = (),
        data_frame: Callable[[], object] | None = None,
    ) -> None:
        self.status = status
        """The command tag, such as `INSERT 0 3`."""
        self.scn = scn
        """The commit that the statement made, or that its rows are of."""
        self.notices = tuple(notices)
        self._table = table
        self._types = tuple(types)
        self._data_frame = data_frame
        self._rows: Iterator[Row] | None = None
        self.changes: Changes | None = None
        """Of SUBSCRIBE: what comes after the rows that were there at once."""

    @classmethod
    def of_lines(cls, title: str, lines: Sequence[str], *, status: str, scn: int) -> Result:
        """Text for people, a line a row."""
        return cls(status=status, scn=scn, table=pa.table({title: pa.array(lines, pa.string())}), types=[TEXT])

    @classmethod
    def of_rows(cls, columns: Sequence[tuple[str, Type]], rows: Sequence[Row], *, status: str, scn: int) -> Result:
        arrays = [pa.array([row[i] for row in rows], arrow_type(type_)) for i, (_, type_) in enumerate(columns)]
        table = pa.Table.from_arrays(arrays, names=[name for name, _ in columns])
        return cls(status=status, scn=scn, table=table, types=[type_ for _, type_ in columns])

    @property
    def has_rows(self) -> bool:
        """Whether the statement was one that gives rows, be it none."""
        return self._table is not None

    @property
    def columns(self) -> list[str]:
        return list(self._table.column_names) if self._table is not None else []

    @property
    def types(self) -> list[str]:
        return [str(type_) for type_ in self._types]

    def fetchall(self) -> list[Row]:
        """The rows that have not been fetched yet."""
        return list(self._remaining())

    def fetchone(self) -> Row | None:
        return next(self._remaining(), None)

    def __iter__(self) -> Iterator[Row]:
        return self._remaining()

    def __len__(self) -> int:
        return int(self._given().num_rows)

    def __bool__(self) -> bool:
        """Whatever a statement gave, it has succeeded."""
        return True

    def arrow(self) -> pa.Table:
        return self._given()

    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        _need("pandas")
        return self._given().to_pandas()

    def pl(self) -> Any:
        """The rows as a polars DataFrame."""
        polars, table = _need("polars"), self._given()
        try:
            return polars.from_arrow(table)
        except (polars.exceptions.PolarsError, ValueError) as error:
            raise Unsupported(
                "polars cannot hold these columns", detail=str(error).splitlines()[0], hint="Use .arrow()."
            ) from error

    def spark(self) -> Any:
        """The rows as a Spark DataFrame, computed by Spark from the same files."""
        self._given()
        if self._data_frame is None:
            raise Error("this statement has no Spark DataFrame", hint="Use .arrow().", sqlstate="0A000")
        return self._data_frame()

    def show(self, limit: int = 20) -> None:
        """Prints the first rows as a table."""
        print(self.text(limit))

    def text(self, limit: int = 20) -> str:
        if self._table is None:
            return self.status
        table = self._table
        rows = to_rows(table.slice(0, limit), self._types)
        more = f"({table.num_rows} row{'s' if table.num_rows != 1 else ''}"
        more += ")" if table.num_rows <= limit else f", the first {limit} shown)"
        return "\n".join([*_aligned(self.columns, rows), more])

    def __repr__(self) -> str:
        return self.text()

    def _given(self) -> pa.Table:
        if self._table is None:
            raise Error(f"the statement gave no rows: {self.status}", sqlstate="02000")
        return self._table

    def _remaining(self) -> Iterator[Row]:
        if self._rows is None:
            self._rows = iter(to_rows(self._given(), self._types))
        return self._rows


def _aligned(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    texts = [["" if value is None else plain(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(text[i]) for text in texts)]) for i, name in enumerate(columns)]
    line = " | ".join(name.ljust(width) for name, width in zip(columns, widths, strict=True))
    rule = "-+-".join("-" * width for width in widths)
    body = [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in texts]
    return [line.rstrip(), rule, *(text.rstrip() for text in body)]


def _need(package: str) -> Any:
    try:
        return __import__(package)
    except ImportError:
        raise Error(
            f"{package} is not installed", hint=f"pip install {package}, or use .arrow().", sqlstate="0A000"
        ) from None
