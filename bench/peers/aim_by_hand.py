"""The split of the six AIM views as someone would write it by hand for a database that has no continuous views.

Three states take the place of the events: one row per customer (`st`), one per region (`s5`), one in all (`s7`).
A batch becomes partials of the three; the answers are read from them.
"""

from __future__ import annotations

PARTIAL_ST = """SELECT entity_id, sum(duration) AS dur, sum(local_calls) AS lcalls, max(cost) AS mx, count(*) AS n,
    sum(cost) AS cost, sum(CASE WHEN NOT long_distance THEN 1 ELSE 0 END) AS nl,
    sum(CASE WHEN NOT long_distance THEN duration ELSE 0 END) AS durl
    FROM {source} WHERE week = {week} GROUP BY entity_id"""
PARTIAL_S5 = """SELECT c.region_id, sum(long_distance_cost) AS ldc, sum(local_cost) AS lc
    FROM {source} AS e, customers AS c
    WHERE e.entity_id = c.id AND week = {week} AND c.type = 2 AND c.category = 1 GROUP BY c.region_id"""
PARTIAL_S7 = """SELECT sum(cost) AS cost, sum(duration) AS dur FROM {source} AS e, customers AS c
    WHERE e.entity_id = c.id AND week = {week} AND c.value_type = 2"""

UPPER = {
    "q1": "SELECT avg(dur) AS average FROM st WHERE lcalls > 2",
    "q2": "SELECT max(mx) AS most FROM st WHERE n > 2",
    "q3": "SELECT sum(cost) / sum(dur) AS cost_ratio FROM st GROUP BY n LIMIT 100",
    "q4": """SELECT city_zip, avg(nl) AS calls, sum(durl) AS duration FROM st AS e, customers AS c
        WHERE nl > 4 AND durl > 25 AND e.entity_id = c.id GROUP BY city_zip""",
    "q5": "SELECT region_id, sum(ldc) AS cost_long, sum(lc) AS cost_local FROM s5 GROUP BY region_id",
    "q7": "SELECT sum(cost) / sum(dur) AS ratio FROM s7",
}
