"""Where a model computes: on this machine, or on vLLM servers."""
