"""Zoos of Triton kernels: the problems, configurations, inputs and references of those in `kernels/triton_zoo*.py`.
"""

ORDER = (
    "first", "more", "edges", "forms", "library", "places", "blind", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "windows", "sixteenth", "seventeenth", "eighteenth",
    "nineteenth", "twentieth", "twentyfirst", "twentysecond", "twentythird", "twentyfourth", "twentyfifth",
    "twentysixth", "twentyseventh", "notation",
)  # fmt: skip
"""As they were made."""
