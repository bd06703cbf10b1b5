"""`python -m kit` is the `kit` command."""

from kit.cli.main import main

if __name__ == "__main__":
    main()
