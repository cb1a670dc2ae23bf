"""Pieces that are computed together."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Cancellation, Piece
from midstream.runtime.store import Store


def run_by_kernel(
    store: Store, wanted: Sequence[tuple[Kernel, Piece]], *, label: str, cancellation: Cancellation | None
) -> list[Answer]:
    """Pieces in one job for each kernel."""
    answers: dict[int, Answer] = {}
    for kernel in dict.fromkeys(kernel for kernel, _ in wanted):
        places = [place for place, (own, _) in enumerate(wanted) if own == kernel]
        pieces = [wanted[place][1] for place in places]
        answers |= zip(places, store.engine.run(kernel, pieces, label=label, cancellation=cancellation), strict=True)
    return [answers[place] for place in range(len(wanted))]
