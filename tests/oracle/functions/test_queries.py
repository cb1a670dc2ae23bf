"""Whole queries whose meaning differs between engines have PostgreSQL's answer on each kernel that takes them."""

from __future__ import annotations

from typing import Any

import pytest
from engines import Failure, Kernels, agree, bind, postgres_rows

from midstream.plan.functions import KERNELS

QUERIES = [
    "SELECT k, count(*), sum(i) FROM v WHERE id > 99 GROUP BY ROLLUP (k)",
    "SELECT k, o, count(*) FROM v WHERE id > 99 GROUP BY CUBE (k, o)",
    "SELECT k, grouping(k), count(*) FROM v WHERE false GROUP BY GROUPING SETS ((k), (), ())",
    "SELECT k, grouping(k), count(*) FROM v GROUP BY GROUPING SETS ((k), (), ()) ORDER BY 1, 2, 3",
    "SELECT k, o, grouping(k, o), count(*) FROM v GROUP BY ROLLUP (k, o) ORDER BY 1, 2, 3, 4",
    "SELECT coalesce(k, 'all'), count(*) FROM v WHERE false GROUP BY ROLLUP (k) HAVING count(*) = 0",
    "SELECT k, s, count(*) FROM v WHERE false GROUP BY k, ROLLUP (s)",
    "SELECT count(*) FROM (SELECT k, count(*) AS n FROM v WHERE false GROUP BY CUBE (k, o)) AS q",
    "SELECT i FROM v UNION SELECT n FROM v UNION SELECT NULL ORDER BY 1",
    "SELECT i FROM v INTERSECT ALL SELECT i FROM v WHERE id < 4 ORDER BY 1",
    "SELECT i FROM v EXCEPT ALL SELECT s FROM v ORDER BY 1",
    "SELECT DISTINCT f FROM v ORDER BY f DESC",
    "SELECT t FROM v ORDER BY t NULLS FIRST, id",
    "SELECT id FROM v ORDER BY n DESC, id LIMIT 3 OFFSET 1",
    "SELECT a.id, b.id FROM v AS a FULL JOIN v AS b ON a.i = b.s ORDER BY 1, 2",
    "SELECT id FROM v WHERE i NOT IN (SELECT s FROM v WHERE s IS NOT NULL) ORDER BY 1",
    "SELECT id FROM v WHERE i NOT IN (SELECT s FROM v) ORDER BY 1",
    "SELECT id FROM v AS a WHERE EXISTS (SELECT 1 FROM v AS b WHERE b.i = a.i AND b.id <> a.id) ORDER BY 1",
    "SELECT id, (SELECT max(b.n) FROM v AS b WHERE b.k = a.k) FROM v AS a ORDER BY 1",
    "SELECT (SELECT id FROM v)",
    "SELECT id FROM v WHERE i > ALL (SELECT s FROM v WHERE id = 1) ORDER BY 1",
    "SELECT id FROM v WHERE (k, i) = ('a', 2) OR (k, i) IN (SELECT k, i FROM v WHERE id = 6) ORDER BY 1",
    "SELECT id FROM v WHERE (i, id) < (2, 3) ORDER BY 1",
    "SELECT u.x, u.n FROM unnest(ARRAY['a', NULL, 'c']) WITH ORDINALITY AS u(x, n) ORDER BY 2",
    "SELECT id, x FROM v, unnest(ARRAY[i, id]) AS u(x) ORDER BY 1, 2",
    "SELECT id, l.m FROM v AS a, LATERAL (SELECT max(b.id) AS m FROM v AS b WHERE b.k = a.k) AS l ORDER BY 1",
    "SELECT g, g * 2 FROM generate_series(1, 3) AS g",
    "WITH q AS (SELECT k, sum(n) AS s FROM v GROUP BY k) SELECT q.k FROM q WHERE q.s = (SELECT max(s) FROM q)",
    "SELECT CASE k WHEN 'a' THEN 1 WHEN 'c' THEN 2.5 END FROM v ORDER BY id",
    "SELECT id FROM v WHERE n BETWEEN 1 AND 7.77 AND t NOT BETWEEN 'y' AND 'z' ORDER BY 1",
    "SELECT id FROM v WHERE i BETWEEN SYMMETRIC 4 AND 2 ORDER BY 1",
    "SELECT max(ts) - min(ts), min(d) + 1 FROM v",
    "SELECT id, ts - timestamp '2020-01-01' FROM v ORDER BY 1",
    "SELECT k, string_agg(t, ',' ORDER BY 'x') FILTER (WHERE id = 1) FROM v GROUP BY k ORDER BY 1",
    "SELECT sum(count(*)) OVER (ORDER BY k) FROM v GROUP BY k ORDER BY 1",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_have_one_answer(sql: str, kernels: Kernels, judge: Any) -> None:
    bound = bind(sql)
    expected = postgres_rows(judge, sql, bound)
    kernels.fold_constants(True)
    for kernel in KERNELS:
        if kernel in bound.refusals:
            continue
        answer = kernels.run_bound(kernel, bound)
        if isinstance(expected, Failure):
            assert isinstance(answer, Failure) and answer.sqlstate == expected.sqlstate, (kernel, answer, expected)
            continue
        assert not isinstance(answer, Failure), (kernel, answer, bound.sql(kernel))
        types = [output.type for output in bound.outputs]
        same = len(answer) == len(expected) and all(
            agree(ours, theirs, type, False)
            for one, other in zip(answer, expected, strict=True)
            for ours, theirs, type in zip(one, other, types, strict=True)
        )
        assert same, (kernel, answer, expected, bound.sql(kernel))
