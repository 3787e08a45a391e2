"""Surveys: what is asked (``asking``), decided and computed (``plan``), and what a smaller run has (``growing``)."""

from bathyscope.surveying.asking import Measures, Survey
from bathyscope.surveying.plan import SurveyPlan

__all__ = ["Measures", "Survey", "SurveyPlan"]
