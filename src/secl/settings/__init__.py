"""Every setting, declared once. Read `groups`, what there is to set; then `tree`, where each stands among flags, recipe
files and `--set`; and `base`, how values are checked, when an error's wording matters.
"""
