"""Every setting, declared once: `groups` has the settings, `names` their spelling, `base` the checks of values."""
