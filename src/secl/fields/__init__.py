"""JSON fields with confidences: a schema's leaves become questions whose candidates are values in several objects."""
