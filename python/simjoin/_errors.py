"""Who is to blame when something goes wrong?"""


class Error(Exception):
    """What every error of simjoin is."""


class InputError(Error, ValueError):
    """The data are not what they should be. Names the row, and what was expected."""


class UsageError(Error, ValueError):
    """Arguments contradict each other, or a value does not fit."""


class MemoryLimitError(Error, MemoryError):
    """More memory is needed than ``memory`` allows."""


class UnavailableError(Error, RuntimeError):
    """Something is not there, such as a GPU. Says how to get it."""


class InternalError(Error, RuntimeError):
    """A bug in simjoin. Please report it."""
