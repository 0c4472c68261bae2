"""Hints and rankings: candidates in the order of their predicted times, and why, as tables, plots and pages."""
