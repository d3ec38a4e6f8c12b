"""OpenAI's API, administration, metrics and the pages over HTTP."""
