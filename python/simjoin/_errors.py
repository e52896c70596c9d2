"""The errors of the package."""


class Error(Exception):
    """The base of all errors of simjoin."""


class InputError(Error, ValueError):
    """The data are invalid. The message names the row and what was expected."""


class UsageError(Error, ValueError):
    """Arguments contradict each other, or a value is invalid."""


class MemoryLimitError(Error, MemoryError):
    """The join needs more memory than ``memory`` allows, or than the machine has."""


class UnavailableError(Error, RuntimeError):
    """Something is missing, such as a GPU. The message says how to get it."""


class InternalError(Error, RuntimeError):
    """A bug in simjoin. Please report it."""
