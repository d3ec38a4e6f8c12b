"""Every setting, declared once. Read `groups`, what there is to set; then `names`, how they are spelled in flags,
recipe files and `--set`; and `base`, how values are checked, when an error's wording matters.
"""
