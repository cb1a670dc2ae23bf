"""The cut: a view becomes stream pipelines, which run on every batch, and an upper query over what they keep."""

from midstream.plan.cut.pipelines import Pipeline
from midstream.plan.cut.programs import Feed, Program, fold
from midstream.plan.cut.views import ViewPlan, cut_view

__all__ = ["Feed", "Pipeline", "Program", "ViewPlan", "cut_view", "fold"]
