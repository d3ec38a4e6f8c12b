"""The posterior: label-free probabilities of the candidate answers, from the evidence of the frozen model."""
