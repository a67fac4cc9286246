"""The command `eqprop`. One thin file per command: what it takes, and what it shows."""
