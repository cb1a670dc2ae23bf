"""TPC-H's tables as Parquet, by the generator from PyPI, kept in the user's cache; and rows that come later.

The rows that come later are copies of lineitem's own, ten thousand in each file, because the generator ends where the
scale factor says.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from peers.installing import LeftOut, cache_folder, python_with

TABLES = ("customer", "nation", "orders", "part", "partsupp", "region", "supplier")


@dataclass(frozen=True)
class TpchFiles:
    tables: dict[str, str]
    lineitem: str
    more: list[str]
    rows: int

    def as_task(self) -> dict[str, Any]:
        return asdict(self)


def make_files(scale_factor: float, more_files: int) -> TpchFiles:
    folder = cache_folder() / f"tpch-{scale_factor:g}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _generate(folder, scale_factor)
        (folder / "done").touch()
    lineitem = f"{folder}/lineitem.parquet"
    more = [_copies(folder, lineitem, number) for number in range(more_files)]
    rows = duckdb.sql(f"SELECT count(*) FROM '{lineitem}'").fetchall()[0][0]
    return TpchFiles({table: f"{folder}/{table}.parquet" for table in TABLES}, lineitem, more, rows)


def _generate(folder: Path, scale_factor: float) -> None:
    generator = Path(python_with("tpchgen", "tpchgen-cli==4.0.0")).with_name("tpchgen-cli")
    command = [str(generator), "parquet", "-s", f"{scale_factor:g}", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LeftOut(f"the generator of TPC-H failed: {done.stderr.strip()[-200:]}")


def _copies(folder: Path, lineitem: str, number: int) -> str:
    path = folder / f"more-{number:03d}.parquet"
    if not path.exists():
        rows = f"FROM '{lineitem}' ORDER BY hash(l_orderkey, l_linenumber, {number}) LIMIT 10000"
        duckdb.connect().execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    return str(path)
