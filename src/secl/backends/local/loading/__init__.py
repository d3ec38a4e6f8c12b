"""Loading of models. Begin with `loader`; the other modules handle particular names, files or machines."""
