"""Models behind servers with OpenAI's API and log-probabilities, and the further abilities of vLLM servers."""
