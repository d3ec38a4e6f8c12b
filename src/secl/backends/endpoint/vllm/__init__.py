"""vLLM servers that get token ids and return log-probabilities, for a model that learns in this process."""
