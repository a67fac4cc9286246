"""`python -m eqprop` is the command `eqprop`."""

import sys

from eqprop.cli.main import main

sys.exit(main())
