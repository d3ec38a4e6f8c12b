"""Models behind servers with OpenAI's API that gives log-probabilities, and what vLLM servers can do beyond that."""
