"""Statement → query that the kernels can run: names bound, types inferred, PostgreSQL's meaning made explicit.

bound = bind_query(select.query, schema, BindContext(scn=41, now=now))
bound.outputs, bound.scans, bound.sql("duckdb")
"""

from midstream.kernels import KERNELS, Kernel
from midstream.plan.bound import BoundQuery, BoundScalar, Output, Scan
from midstream.plan.changes import bind_delete, bind_insert, bind_update
from midstream.plan.context import BindContext
from midstream.plan.explain import explain_query
from midstream.plan.freezing import freeze_stars
from midstream.plan.merge import bind_merge
from midstream.plan.statements import bind_condition, bind_default, bind_query

__all__ = [
    "KERNELS",
    "BindContext",
    "BoundQuery",
    "BoundScalar",
    "Kernel",
    "Output",
    "Scan",
    "bind_condition",
    "bind_default",
    "bind_delete",
    "bind_insert",
    "bind_merge",
    "bind_query",
    "bind_update",
    "explain_query",
    "freeze_stars",
]
