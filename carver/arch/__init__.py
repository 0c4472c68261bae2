"""Devices: what a descriptor holds, the shipped ones by name, the one in this machine."""
