"""`midstream.connect`: the way in."""

from __future__ import annotations

import os
from typing import Any

from midstream.database import Database


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    spark: Any = None,
    master: str | None = None,
    cores: int | None = None,
    memory: int | str | None = None,
    **settings: object,
) -> Database:
    """Opens a database folder, or makes one; with no path, a temporary one that goes with `close`.

    `spark` is a session that you have, `master` a cluster; otherwise Spark runs inside this process, with
    so many `cores` and so much `memory`. Settings are those of SET, such as `retain_history='1 day'`."""
    return Database(path, spark=spark, master=master, cores=cores, memory=memory, **settings)
