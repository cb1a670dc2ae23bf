"""Every example in the table of functions gives PostgreSQL's answer, or its error, on each kernel that takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from engines import Failure, Kernels, Rows, agree, bind, postgres_rows

from midstream.errors import Error
from midstream.plan.bound import BoundQuery
from midstream.plan.functions import FAMILIES, KERNELS, Function, Kernel
from midstream.plan.functions.windows import AGGREGATE_EXAMPLES

WHOLE = {
    "scalar": ["SELECT {}"],
    "aggregate": [
        "SELECT k, {} FROM v GROUP BY k ORDER BY k",
        "SELECT {} FROM v",
        "SELECT {} FROM v WHERE false",
    ],
    "window": ["SELECT id, {} FROM v ORDER BY id"],
}


@dataclass(frozen=True)
class Example:
    function: Function
    text: str
    judged_by: str
    """The same for PostgreSQL, where it writes it in another way."""


def examples(family: str) -> list[Example]:
    found = []
    for function in FAMILIES[family]:
        for example in function.examples:
            text, _, other = example.partition(" == ")
            found.append(Example(function, text, other or text))
    return found


def first_ones(chosen: Sequence[Example]) -> list[Example]:
    """One example of each function."""
    return list({example.function.signature: example for example in reversed(chosen)}.values())


@pytest.mark.parametrize("family", list(FAMILIES))
def test_kernels_agree_with_postgresql(family: str, kernels: Kernels, judge: Any) -> None:
    wrong: list[str] = []
    for shape, frames in WHOLE.items():
        chosen = [example for example in examples(family) if example.function.shape == shape]
        wrong += list(_disagreements(frames[0], chosen, kernels, judge))
        for frame in frames[1:]:
            wrong += list(_disagreements(frame, first_ones(chosen), kernels, judge))
    assert not wrong, f"{len(wrong)} disagreements\n" + "\n".join(wrong)


def _disagreements(frame: str, chosen: Sequence[Example], kernels: Kernels, judge: Any) -> Iterator[str]:
    expected = {example: _expected(frame, example, judge) for example in chosen}
    for example, (bound, rows) in expected.items():
        if isinstance(bound, Failure) and not (isinstance(rows, Failure) and rows.sqlstate == bound.sqlstate):
            yield f"{example.text}: refused with {bound}, PostgreSQL says {rows}"
    bound_ones = {e: (b, r) for e, (b, r) in expected.items() if isinstance(b, BoundQuery)}
    for kernel in KERNELS:
        yield from _kernel_disagreements(kernel, frame, bound_ones, kernels)


def _expected(frame: str, example: Example, judge: Any) -> tuple[BoundQuery | Failure, Rows | Failure]:
    try:
        bound: BoundQuery | Failure = bind(_filled(frame, example.text))
    except Error as error:
        bound = Failure(error.sqlstate, error.message)
    sql = _filled(frame, example.judged_by)
    return bound, postgres_rows(judge, sql, bound if isinstance(bound, BoundQuery) else None)


def _kernel_disagreements(kernel: Kernel, frame: str, expected: dict[Example, Any], kernels: Kernels) -> Iterator[str]:
    taken = [e for e, (bound, _) in expected.items() if kernel not in bound.refusals]
    good = [e for e in taken if not isinstance(expected[e][1], Failure)]
    kernels.fold_constants(frame != WHOLE["scalar"][0])
    answers = run_together(kernel, frame, good, kernels, 20 if kernel == "spark" else 1)
    for example in good:
        bound, rows = expected[example]
        answer = answers[example]
        if isinstance(answer, Failure) or not _same(answer, rows, bound, example.function):
            yield f"{kernel}: {example.text} [{frame[:30]}] gives {answer}, PostgreSQL {rows}: {bound.sql(kernel)}"
    kernels.compile_queries(False)
    for example in taken:
        bound, rows = expected[example]
        if isinstance(rows, Failure):
            answer = kernels.run_bound(kernel, bound)
            if not isinstance(answer, Failure) or answer.sqlstate != rows.sqlstate:
                yield f"{kernel}: {example.text} gives {answer}, PostgreSQL {rows}: {bound.sql(kernel)}"
    kernels.compile_queries(True)


def _filled(frame: str, text: str) -> str:
    return frame.replace("{}", text)


def run_together(
    kernel: Kernel, frame: str, chosen: Sequence[Example], kernels: Kernels, size: int
) -> dict[Example, Rows | Failure]:
    """Many examples in one query, halved where one of them fails."""
    answers: dict[Example, Rows | Failure] = {}
    for start in range(0, len(chosen), size):
        answers |= _halve(kernel, frame, chosen[start : start + size], kernels)
    return answers


def _halve(kernel: Kernel, frame: str, chosen: Sequence[Example], kernels: Kernels) -> dict[Example, Rows | Failure]:
    answer = kernels.run(kernel, _filled(frame, ", ".join(example.text for example in chosen)))
    if not isinstance(answer, Failure):
        before = len(answer[0]) - len(chosen) if answer else 0
        return {e: [(*row[:before], row[before + i]) for row in answer] for i, e in enumerate(chosen)}
    if len(chosen) == 1:
        return {chosen[0]: answer}
    half = len(chosen) // 2
    return _halve(kernel, frame, chosen[:half], kernels) | _halve(kernel, frame, chosen[half:], kernels)


def _same(ours: Rows, theirs: Rows, bound: BoundQuery, function: Function) -> bool:
    if len(ours) != len(theirs):
        return False
    return all(
        agree(a, b, output.type, function.approximate)
        for one, other in zip(ours, theirs, strict=True)
        for a, b, output in zip(one, other, bound.outputs, strict=True)
    )


def test_aggregates_over_windows_agree(kernels: Kernels, judge: Any) -> None:
    row_number = next(f for f in FAMILIES["Window functions"] if f.name == "row_number")
    chosen = [Example(replace(row_number, approximate=True), text, text) for text in AGGREGATE_EXAMPLES]
    wrong = list(_disagreements(WHOLE["window"][0], chosen, kernels, judge))
    assert not wrong, f"{len(wrong)} disagreements\n" + "\n".join(wrong)


def test_every_scalar_function_has_examples() -> None:
    bare = [f.signature for family in FAMILIES.values() for f in family if not f.examples and not f.volatile]
    assert bare == []
