"""The HTTP interface: OpenAI's API, administration, metrics, and pages for the browser."""
