"""Read scores per item from files of other evaluation tools, from any table, or from objects.

Each format is one module. :data:`mirage.scores.reading.FORMATS` lists them in the order in which
they are tried.
"""
