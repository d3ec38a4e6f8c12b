"""The server's page."""
