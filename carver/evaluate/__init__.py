"""Measured tables, read through one adapter per format and ranked with the shipped model."""
