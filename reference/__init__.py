"""The pages of the site that are made from the code when it is built: commands, Python, settings, records, HTTP.

`reference.hook` puts them into the site; nothing of it is installed with the library.
"""
