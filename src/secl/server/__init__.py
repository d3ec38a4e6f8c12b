"""The HTTP server: answers with a confidence, learning behind them, and a record of everything."""
