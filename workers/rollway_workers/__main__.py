import sys

from rollway_workers.main import main

if __name__ == "__main__":
    sys.exit(main())
