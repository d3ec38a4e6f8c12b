"""From a name to a model in memory. Read `loader`; the others are what a name, a file or a machine may need."""
