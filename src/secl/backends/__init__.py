"""Where a model computes: on this machine, on vLLM servers, or behind any server with OpenAI's API."""
