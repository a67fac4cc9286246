"""A campaign that tries to break eqprop: `make fuzz`, or `python -m campaign`. One kind of attack a file."""
