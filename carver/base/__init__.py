"""What every layer uses.

`errors`, `types` (arrays, records) and `dtypes` (element types); `given`, the checks of whatever comes from outside;
`folders` and `store`, what is kept on disk; `child`, `children` and `warden`, processes for what may crash or hang;
`table`, text and bars of progress for a screen; `modules`, where Python's files lie.
"""
