"""``python -m evenodds`` is ``evenodds``."""

from evenodds.cli import main

if __name__ == "__main__":
    main()
