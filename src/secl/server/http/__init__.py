"""OpenAI's API, administration, metrics and the dashboard over HTTP."""
