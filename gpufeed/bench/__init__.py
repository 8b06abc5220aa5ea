"""Measuring loaders against each other, fairly and with what it takes to check the result.

``measure.measure`` runs contenders in interleaved rounds, each in a process of its own; ``contenders`` lists them,
``results`` holds what was measured, ``statistics`` and ``render`` make a table of it. Importing this package imports
neither torch nor DALI; only the contenders' own processes do.
"""
