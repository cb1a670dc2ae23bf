"""PostgreSQL's words that cannot stand bare as a name, by the place where they cannot.

`RESERVED` are no column, table or alias; `FUNCTION_OR_TYPE` are no column or table, but may name a function;
`NEED_AS` may be a column's label only behind AS.
"""

from __future__ import annotations

RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create
    current_catalog current_date current_role current_time current_timestamp current_user default deferrable desc
    distinct do else end except false fetch for foreign from grant group having in initially intersect into lateral
    leading limit localtime localtimestamp not null offset on only or order placing primary references returning
    select session_user some symmetric system_user table then to trailing true union unique user using variadic when
    where window with""".split()
)
FUNCTION_OR_TYPE = frozenset(
    """authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join left
    like natural notnull outer overlaps right similar tablesample verbose""".split()
)
NEED_AS = frozenset(
    """array as char character create day except fetch filter for from grant group having hour intersect into isnull
    limit minute month notnull offset on order over overlaps precision returning second to union varying where window
    with within without year""".split()
)
NO_BARE_NAME = RESERVED | FUNCTION_OR_TYPE

PRINTED_IN_CAPITALS = (
    RESERVED
    | FUNCTION_OR_TYPE
    | frozenset(
        """between by case changes compute continuous copy cube delete delta demand destination drop each else end
        escape exists explain filter following if increasing initialize insert interval key landmark length matched
        match_recognize materialized measures merge notify nulls of over partition pattern period preceding query
        queue range recursive refresh rename replace rollup rows scn session set sets slide start stream strictly
        subscribe ties transactional trigger unbounded update values view windows within grouping define""".split()
    )
)
"""Words that canonical text prints in capitals; the meaning of a text does not depend on it."""
