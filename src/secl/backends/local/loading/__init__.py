"""From a name to a model in memory. Read `loader`; the other modules serve some names, files or machines."""
