"""`python -m xpipe` is the command `xpipe`."""

from xpipe.cli.main import main

if __name__ == "__main__":
    main()
