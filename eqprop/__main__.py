"""`python -m eqprop` is the command `eqprop`."""

from eqprop.cli.main import main

main()
