"""The error that a person at the command line is meant to read."""


class UserError(Exception):
    """Something the user can mend: one line that names the thing, what came, and what would be right.

    The command line prints the message alone and exits with code 1; in Python it is an ordinary exception.
    """
