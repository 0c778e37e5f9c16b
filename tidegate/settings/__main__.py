"""`python -m tidegate.settings` prints the table."""

import sys

from tidegate.settings.table import table

if __name__ == "__main__":
    sys.stdout.write(table())
