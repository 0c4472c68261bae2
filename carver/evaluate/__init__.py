"""Measured tables, read through one adapter a vocabulary and ranked with the shipped model."""
