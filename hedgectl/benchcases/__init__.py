"""Bench cases of ``hedgectl bench``, one file each: ``CASE`` and ``run``."""
