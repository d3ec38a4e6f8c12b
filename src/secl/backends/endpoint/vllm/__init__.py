"""vLLM servers: token ids go there, log-probabilities come back, for a model that learns in this process."""
