"""JSON fields with confidences: each field becomes a question, with values from several objects as candidates."""
