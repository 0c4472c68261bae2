"""The cost model: what a candidate asks for, and the time that takes."""
