"""Surveys: what is asked (``asking``), decided and computed (``plan``), and what a smaller run has (``growing``)."""
