"""Labels: people judge some answers, and the confidences of all answers are calibrated with that."""
