import sys

from rollway_service.main import main

if __name__ == "__main__":
    sys.exit(main())
