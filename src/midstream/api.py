"""`midstream.connect`: the way in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from midstream.spark.jvm import launch_ahead
from midstream.spark.resources import Resources

if TYPE_CHECKING:
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
    if spark is None:
        # The JVM comes up on one core while the other imports the rest.
        launch_ahead(master, Resources.of(cores, memory))
    from midstream.database import Database

    return Database(path, spark=spark, master=master, cores=cores, memory=memory, **settings)
