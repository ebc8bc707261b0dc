"""`python -m ronda`."""

import sys

from ronda.cli.main import main

sys.exit(main())
