"""Callbacks for other tools."""
