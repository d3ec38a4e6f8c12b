"""Any server with OpenAI's API that gives log-probabilities: it answers, and no weights are touched."""
