"""`python -m secl`: the command line, also where the folder of its script is not on the PATH."""

from secl.cli import main

if __name__ == "__main__":
    main()
