"""`python -m secl` runs the command line, even if the script `secl` is not on the PATH."""

from secl.cli import main

if __name__ == "__main__":
    main()
