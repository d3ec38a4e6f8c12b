"""The posterior: how probable each candidate answer is, from all that the frozen model shows, without labels."""
