"""How large the windows of DataCell are: as in the paper, and small ones for a quick look."""

from __future__ import annotations

from dataclasses import dataclass

from peers.datacell_workload import Shape


@dataclass(frozen=True)
class Sizes:
    q1: Shape
    q2: Shape
    q3: Shape
    landmarks: int
    """So many windows of Q3."""
    rows_pass: tuple[float, ...]
    pairs_match: tuple[float, ...]
    windows: tuple[int, ...]
    join_windows: tuple[int, ...]
    cuts: tuple[int, ...]
    """Numbers of basic windows of Q1,"""
    join_cuts: tuple[int, ...]
    """and of Q2."""
    inserts: int
    """That a slide comes in, where it is absorbed in chunks,"""
    filling: float
    """over so many seconds,"""
    search: int
    """for so many slides."""
    at_once: int
    rounds: int
    slides: int
    """Timed in the first figures; half as many in the others."""
    kernel_slides: int


WHOLE = Sizes(
    q1=Shape("q1", 10_240_000, 20_000, 0.2),
    q2=Shape("q2", 102_400, 1_600, 1e-5),
    q3=Shape("q3", 0, 2_500_000, 0.2),
    landmarks=20,
    rows_pass=(0.1, 0.3, 0.5, 0.7, 0.9),
    pairs_match=(1e-7, 1e-6, 1e-5, 1e-4, 1e-3),
    windows=(1_024_000, 5_120_000, 10_240_000, 20_480_000),
    join_windows=(1_024_000, 4_096_000),
    cuts=(2, 8, 64, 512, 1024, 4096),
    join_cuts=(2, 8, 64, 256, 1024),
    inserts=128,
    filling=4.0,
    search=40,
    at_once=100,
    rounds=1,
    slides=20,
    kernel_slides=5,
)
QUICK = Sizes(
    q1=Shape("q1", 1_024_000, 2_000, 0.2, values=100),
    q2=Shape("q2", 10_240, 160, 1e-4),
    q3=Shape("q3", 0, 100_000, 0.2),
    landmarks=4,
    rows_pass=(0.8,),
    pairs_match=(1e-3,),
    windows=(102_400,),
    join_windows=(20_480,),
    cuts=(8, 64),
    join_cuts=(8,),
    inserts=8,
    filling=1.0,
    search=12,
    at_once=100,
    rounds=1,
    slides=4,
    kernel_slides=2,
)
