"""Labels: human judgements of some answers, which calibrate the confidences of all answers."""
