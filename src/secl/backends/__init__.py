"""Engines of a model: this machine, vLLM servers, or any server with OpenAI's API."""
