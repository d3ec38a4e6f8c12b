"""The door over HTTP: answers with a confidence, learning behind them, and a record of all of it."""
