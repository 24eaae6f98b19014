"""`python -m evenodds`; also the file that `spark-submit` takes."""

from evenodds.cli import main

if __name__ == "__main__":
    main()
