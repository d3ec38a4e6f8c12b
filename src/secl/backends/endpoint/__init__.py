"""Models on servers with OpenAI's API and log-probabilities. `vllm` uses vLLM's additions to this API."""
