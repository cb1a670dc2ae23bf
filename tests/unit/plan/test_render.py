"""Text for the two kernels: quotes, literals, NULL ordering, refusals, errors, and the page of functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_typing import bind

from midstream.errors import Unsupported
from midstream.kernels import quote_text
from midstream.plan.functions import FUNCTIONS, KERNELS
from midstream.plan.functions.model import Refusal
from midstream.plan.functions.page import functions_page

ROOT = Path(__file__).parents[3]


def test_one_tree_two_dialects() -> None:
    bound = bind("SELECT i / 2 AS h, t || 'it''s' FROM x WHERE n > 1 ORDER BY i DESC")
    assert bound.sql("duckdb") == (
        'SELECT ("x"."i" // 2) AS "c0", ("x"."t" || \'it\'\'s\') AS "c1" FROM "scan_0" AS "x" '
        'WHERE ("x"."n" > CAST(\'1.00\' AS DECIMAL(10, 2))) ORDER BY "x"."i" DESC NULLS FIRST'
    )
    assert bound.sql("spark") == (
        "SELECT CAST(`x`.`i` div 2 AS INT) AS `c0`, (`x`.`t` || 'it\\'s') AS `c1` FROM `scan_0` AS `x` "
        "WHERE (`x`.`n` > CAST('1.00' AS DECIMAL(10, 2))) ORDER BY `x`.`i` DESC NULLS FIRST"
    )


@pytest.mark.parametrize(
    ("text", "duckdb", "spark"),
    [
        ("a'b", "'a''b'", "'a\\'b'"),
        ("a\\nb", "'a\\nb'", "'a\\\\nb'"),
        ("${x}", "'${x}'", "'${x}'"),
        ("a\nb\x01", "'a\nb\x01'", "'a\nb\x01'"),
        ("", "''", "''"),
    ],
)
def test_texts_are_quoted_letter_by_letter(text: str, duckdb: str, spark: str) -> None:
    assert quote_text(text, "duckdb") == duckdb
    assert quote_text(text, "spark") == spark


def test_names_with_quotes_inside() -> None:
    bound = bind('SELECT "q""`".i FROM x AS "q""`"')
    assert '"q""`"."i"' in bound.sql("duckdb")
    assert '`q"```.`i`' in bound.sql("spark")


@pytest.mark.parametrize(
    ("expression", "kernel", "reason"),
    [
        ("f::text", "spark", "floating-point"),
        ("iv < iv", "spark", "intervals"),
        ("sum(i) OVER (ORDER BY i GROUPS 1 PRECEDING)", "spark", "GROUPS"),
        ("levenshtein(t, t)", "duckdb", "only Spark"),
        ("i > ALL (SELECT 1)", "spark", "ANY or ALL"),
    ],
)
def test_what_a_kernel_cannot_do_runs_on_the_other(expression: str, kernel: str, reason: str) -> None:
    bound = bind(f"SELECT {expression} FROM x")
    assert list(bound.refusals) == [kernel]
    assert reason in next(iter(bound.refusals.values()))


@pytest.mark.parametrize("expression", ["round(n, i)", "t ~ t", "t ~ '(?=a)'", "first(i)", "to_char(ts, 'Month')"])
def test_what_no_kernel_can_do_is_refused_with_reasons(expression: str) -> None:
    with pytest.raises(Unsupported) as caught:
        bind(f"SELECT {expression} FROM x")
    assert caught.value.detail


def test_a_stored_interval_is_a_struct_inside_and_out() -> None:
    sql = bind("SELECT iv, ts + iv FROM x").sql("duckdb")
    assert 'to_months("x"."iv".months)' in sql
    assert "struct_pack(months := " in sql


def test_every_function_runs_on_a_kernel() -> None:
    idle = [f.signature for f in FUNCTIONS.values() if all(isinstance(f.template(k), Refusal) for k in KERNELS)]
    assert idle == []


def test_the_page_of_functions_is_printed_from_the_table() -> None:
    assert (ROOT / "docs" / "functions.md").read_text() == functions_page()
