"""The change of a query's answer, from the changes of its tables: Witkowski et al., Continuous Queries in Oracle.

    pst(A join B) - pre(A join B)  =  dlt(A) join pre(B)  +  pst(A) join dlt(B)

A change is a row with a weight: +1 for each time it came, -1 for each time it went. `terms` has the rule for each shape
of query; whatever has no rule is computed before and after, and compared.
"""

from midstream.plan.difference.algebraic import KEPT, NEWER
from midstream.plan.difference.backing import BackingPlan, bind_backing
from midstream.plan.difference.images import Changed, Kind
from midstream.plan.difference.query import Difference, bind_answer, bind_difference
from midstream.plan.difference.steps import Step, Unit, Units

__all__ = [
    "KEPT",
    "NEWER",
    "Changed",
    "Difference",
    "Kind",
    "Step",
    "BackingPlan",
    "Unit",
    "Units",
    "bind_answer",
    "bind_difference",
    "bind_backing",
]
