"""The tables of the paper, repeated over the public API of secl: `secl reproduce`.

`tables.py` lists the tables, `paper.json` has the paper's numbers, `reproduce.py` does the runs and fills the tables.
"""
