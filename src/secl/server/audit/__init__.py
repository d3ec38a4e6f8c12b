"""What a server has recorded: history, explanations, integrity, replay, rollback; no HTTP."""
