"""SQL around the change of a query: from rows with weights to changes of kind I, D and U, or to work on a table.

The text of a change gives c0, c1, … and, as the last column, how often the row came, less how often it went.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.kernels import Kernel, quote_name

SCN, NUMBER, KIND = "scn", "number", "kind"


def row_names(width: int) -> list[str]:
    return [f"r{place}" for place in range(width)]


def old_names(width: int) -> list[str]:
    return [f"o{place}" for place in range(width)]


def changes_text(net: str, width: int, key: Sequence[int], scn: int | None, kernel: Kernel) -> str:
    """The changes of one SCN, numbered: its kind, the row, and what it was before. Without an SCN they are of several,
    each with its own before the weight."""
    rows = _paired(width, key) if key else _apart(width)
    columns = ", ".join([*row_names(width), *old_names(width)])
    marked = net if scn is None else _marked(net, width, scn)
    return (
        f"WITH net AS ({marked}), expanded AS ({_expanded(width, kernel, 'scn')}), changes AS ({rows}) "
        f"SELECT scn, row_number() OVER (PARTITION BY scn ORDER BY kind) - 1 AS number, kind, {columns} FROM changes "
        "ORDER BY scn, number"
    )


def _marked(net: str, width: int, scn: int) -> str:
    """With the SCN before the weight."""
    columns = ", ".join(f"c{place}" for place in range(width))
    return f"SELECT {columns}, CAST({scn} AS BIGINT) AS c{width}, c{width} AS c{width + 1} FROM ({net}) AS n"


def _expanded(width: int, kernel: Kernel, commit: str | None = None) -> str:
    """Each row as often as its weight says; `w` is left with its sign."""
    named = [f"c{place}" for place in range(width)] + ([f"c{width} AS {commit}"] if commit is not None else [])
    columns = ", ".join(named)
    weight = f"c{width + 1}" if commit is not None else f"c{width}"
    if kernel == "spark":
        return f"SELECT {columns}, {weight} AS w FROM net LATERAL VIEW explode(sequence(1, abs({weight}))) AS times"
    return (
        f"SELECT {columns}, {weight} AS w FROM net, LATERAL (SELECT unnest(range(CAST(abs({weight}) AS BIGINT)))) AS t"
    )


def _apart(width: int) -> str:
    rows = [f"c{place} AS r{place}" for place in range(width)]
    olds = [f"CASE WHEN w < 0 THEN c{place} END AS o{place}" for place in range(width)]
    return f"SELECT scn, CASE WHEN w > 0 THEN 'I' ELSE 'D' END AS kind, {', '.join([*rows, *olds])} FROM expanded"


def _paired(width: int, key: Sequence[int]) -> str:
    """A row that went and one that came with the same key are one update."""
    same = " AND ".join(["came.scn = went.scn", *(f"came.c{p} IS NOT DISTINCT FROM went.c{p}" for p in key)])
    scn = "coalesce(came.scn, went.scn) AS scn"
    kind = "CASE WHEN went.w IS NULL THEN 'I' WHEN came.w IS NULL THEN 'D' ELSE 'U' END AS kind"
    rows = [f"CASE WHEN came.w IS NULL THEN went.c{p} ELSE came.c{p} END AS r{p}" for p in range(width)]
    olds = [f"went.c{place} AS o{place}" for place in range(width)]
    return (
        f"SELECT {scn}, {kind}, {', '.join([*rows, *olds])} FROM (SELECT * FROM expanded WHERE w > 0) AS came "
        f"FULL OUTER JOIN (SELECT * FROM expanded WHERE w < 0) AS went ON {same}"
    )


def streamed_text(rows: str, width: int, kernel: Kernel) -> str:
    """Rows of a stream as changes: what came, with its SCN, and its position for a number."""
    new = [f"c{place} AS r{place}" for place in range(width)]
    olds = [f"CASE WHEN FALSE THEN c{place} END AS o{place}" for place in range(width)]
    return (
        f"SELECT c{width} AS scn, c{width + 1} AS number, 'I' AS kind, {', '.join([*new, *olds])} FROM ({rows}) AS r "
        f"ORDER BY c{width + 1}"
    )


KEY_CHECK = "key"


def key_check(key: Sequence[int], kernel: Kernel) -> tuple[str, str]:
    """Finds a key that several changes of one commit have, or that is NULL."""
    names = [f"r{place}" for place in key]
    missing = " OR ".join(f"{name} IS NULL" for name in names)
    listed, output = ", ".join(names), quote_name("output", kernel)
    text = f"SELECT {listed} FROM {output} GROUP BY scn, {listed} HAVING count(*) > 1 OR {missing} LIMIT 1"
    return KEY_CHECK, text


def duplicates_text(query: str, key: Sequence[int]) -> str:
    """Finds a key that several rows of the answer had after some commit; `changes` are what was handed out of commits
    up to this answer.

    How many rows had a key at first is how many have it now, less what came and went; to that is added the most that
    came by some commit: with I at 4 and D at 5 and one row now, there was one before 4, so at 4 there were two."""
    keys = ", ".join(f"r{place}" for place in key)
    listed = ", ".join(f"k.r{place}" for place in key)
    same = " AND ".join(f"q.c{place} = k.r{place}" for place in key)
    moves = "CASE kind WHEN 'I' THEN 1 WHEN 'D' THEN -1 ELSE 0 END"
    return (
        f"SELECT {listed} FROM (SELECT {keys}, max(came) AS most, max(now) AS net FROM (SELECT {keys}, "
        f"sum({moves}) OVER (PARTITION BY {keys} ORDER BY scn) AS came, "
        f"sum({moves}) OVER (PARTITION BY {keys}) AS now FROM changes) AS moved "
        f"GROUP BY {keys} HAVING max(came) > 0) AS k LEFT JOIN ({query}) AS q ON {same} "
        f"GROUP BY {listed}, k.most, k.net HAVING count(q.c{key[0]}) - k.net + k.most > 1 LIMIT 1"
    )


def answer_check_text(query: str, key: Sequence[int]) -> str:
    """Finds a key of an answer that is NULL or not the only one."""
    listed = ", ".join(f"c{place}" for place in key)
    missing = " OR ".join(f"c{place} IS NULL" for place in key)
    return f"SELECT {listed} FROM ({query}) AS q GROUP BY {listed} HAVING count(*) > 1 OR {missing} LIMIT 1"


def answer_check(key: Sequence[int], kernel: Kernel) -> tuple[str, str]:
    """The same for an answer that a job writes."""
    return KEY_CHECK, answer_check_text(f"SELECT * FROM {quote_name('output', kernel)}", key)


# --- stored answers ------------------------------------------------------------------------------------

MISSING = "X"
"""The action for a row that should go and is not there."""


def full_net_text(query: str, stored: str, width: int, kernel: Kernel) -> str:
    """What an answer has more, and less, than the stored rows."""
    columns = ", ".join(f"c{place}" for place in range(width))
    return (
        f"SELECT {columns}, count(*) FILTER (WHERE w > 0) - count(*) FILTER (WHERE w < 0) AS c{width} "
        f"FROM (SELECT {columns}, 1 AS w FROM ({query}) AS q "
        f"UNION ALL SELECT {columns}, -1 AS w FROM {quote_name(stored, kernel)}) AS both_sides "
        f"GROUP BY {columns} HAVING count(*) FILTER (WHERE w > 0) <> count(*) FILTER (WHERE w < 0)"
    )


def apply_text(net: str, stored: str, width: int, key: Sequence[int], kernel: Kernel) -> str:
    """What to do to the stored rows: (row id, 'I' | 'U' | 'D' | 'X', the new row). `stored` has the id and c0, c1, …"""
    columns = [f"c{place}" for place in range(width)]
    listed = ", ".join(columns)
    same = " AND ".join(f"s.{name} IS NOT DISTINCT FROM w.{name}" for name in columns)
    went = f"SELECT {listed}, CAST(-c{width} AS BIGINT) AS w FROM net WHERE c{width} < 0"
    touched = f"SELECT s.* FROM {quote_name(stored, kernel)} AS s JOIN went AS w ON {same}"
    numbered = f"SELECT *, row_number() OVER (PARTITION BY {listed} ORDER BY id) AS n FROM touched"
    gone = f"SELECT s.* FROM numbered AS s JOIN went AS w ON {same} AND s.n <= w.w"
    came = f"SELECT {listed} FROM ({_expanded(width, kernel)}) AS e WHERE w > 0"
    counted = f"SELECT {listed}, count(*) AS there FROM numbered GROUP BY {listed}"
    missing = f"SELECT w.* FROM went AS w LEFT JOIN counted AS s ON {same} WHERE coalesce(s.there, 0) < w.w"
    return (
        f"WITH net AS ({net}), went AS ({went}), touched AS ({touched}), numbered AS ({numbered}), gone AS ({gone}), "
        f"came AS ({came}), counted AS ({counted}), missing AS ({missing}) {_actions(columns, key)}"
    )


def _actions(columns: Sequence[str], key: Sequence[int]) -> str:
    new = ", ".join(f"c.{name}" for name in columns)
    old = ", ".join(f"g.{name}" for name in columns)
    lost = ", ".join(f"m.{name}" for name in columns)
    absent = f"SELECT CAST(NULL AS BIGINT) AS id, '{MISSING}' AS action, {lost} FROM missing AS m"
    if not key:
        return (
            f"SELECT CAST(NULL AS BIGINT) AS id, 'I' AS action, {new} FROM came AS c UNION ALL "
            f"SELECT g.id, 'D' AS action, {old} FROM gone AS g UNION ALL {absent}"
        )
    same = " AND ".join(f"c.c{place} IS NOT DISTINCT FROM g.c{place}" for place in key)
    return (
        f"SELECT g.id, CASE WHEN g.id IS NULL THEN 'I' ELSE 'U' END AS action, {new} FROM came AS c "
        f"LEFT JOIN gone AS g ON {same} UNION ALL SELECT g.id, 'D' AS action, {old} FROM gone AS g "
        f"WHERE NOT EXISTS (SELECT 1 FROM came AS c WHERE {same}) UNION ALL {absent}"
    )
