"""Which error says what went wrong?"""


class Error(Exception):
    """The base of all errors of simjoin."""


class InputError(Error, ValueError):
    """The data do not fit. The message names the row and what was expected."""


class UsageError(Error, ValueError):
    """Arguments contradict each other, or a value does not fit."""


class MemoryLimitError(Error, MemoryError):
    """More memory is needed than ``memory`` allows, or than there is."""


class UnavailableError(Error, RuntimeError):
    """Something is missing, such as a GPU. The message says how to get it."""


class InternalError(Error, RuntimeError):
    """A bug in simjoin. Please report it."""
