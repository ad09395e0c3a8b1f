"""The error that a person at the command line is meant to read."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend: one line that names the thing, what came, and what would be right.

    The command line prints the message alone and exits with code 1; in Python it is an ordinary exception.
    """

    @classmethod
    def unknown(cls, kind: str, name: str, known: Iterable[str]) -> "UserError":
        """The error for a name that is not among the known ones; it lists them and points at a near miss.

        Args:
            kind: what the name names, such as "task".
            name: what came.
            known: the names that would be right.

        >>> print(UserError.unknown("task", "mlv", ["mlu", "trec"]))
        unknown task 'mlv' (did you mean 'mlu'?): choose from mlu, trec
        """
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return cls(f"unknown {kind} {name!r}{hint}: choose from {', '.join(names) or '(none)'}")
