"""The command line without a process of its own, for speed."""

from eqprop.cli.main import main


def run(*args: object) -> int:
    """The exit status of `eqprop args`; whatever it raises would be a traceback to its user."""
    try:
        return main([str(arg) for arg in args])
    except SystemExit as exit:  # how the parser ends
        assert isinstance(exit.code, int)
        return exit.code
