"""Errors and warnings whose messages are written for users of the command line."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """An error that the user can fix: one line says what was received and what is valid.

    The command line prints only the message and exits with code 1. In Python it is an ordinary
    exception.
    """

    def __str__(self) -> str:
        """Return the message as one line, even if names or texts in it have line breaks."""
        return " ".join(super().__str__().splitlines())

    @classmethod
    def unknown(cls, kind: str, name: str, known: Iterable[str]) -> "UserError":
        """Return the error for an unknown name; it lists known names and suggests a close one.

        Args:
            kind: what kind of thing the name refers to, such as "task".
            name: the name that was received.
            known: the valid names.

        >>> print(UserError.unknown("task", "mlv", ["mlu", "trec"]))
        unknown task 'mlv' (did you mean 'mlu'?): choose from mlu, trec
        """
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return cls(f"unknown {kind} {name!r}{hint}: choose from {', '.join(names) or '(none)'}")

    @classmethod
    def check(cls, kind: str, name: str, known: Iterable[str]) -> None:
        """Raise the error for an unknown name unless the name is known."""
        if name not in known:
            raise cls.unknown(kind, name, known)


def first_line(error: BaseException) -> str:
    r"""Return the first line of the message, or the name of the class if there is no message.

    >>> first_line(ValueError("too long\nby 3")), first_line(TypeError())
    ('too long', 'TypeError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class FileError(UserError):
    """A file could not be read or written: the disk is full, say, or a permission is missing.

    The request itself may be valid and may succeed later.
    """


class DataWarning(UserWarning):
    """A probable mistake in the user's data; the one-line message says where.

    The command line prints the message; in Python it is an ordinary warning.
    """
