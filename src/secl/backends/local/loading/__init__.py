"""Loading of models. Begin with `loader`; the other modules serve some names, files or machines."""
