"""Every setting, declared once: `groups` has the settings, `names` their spelling, and `base` the checks of values."""
