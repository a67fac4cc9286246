"""What eqprop costs, measured: `make bench`, or `python -m benchmarks --help`."""
