"""Answers in batches, with learning behind them; no HTTP."""
