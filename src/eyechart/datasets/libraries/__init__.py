"""Data that other libraries read: tfds, torchvision, MTEB."""


def first_line(error: BaseException) -> str:
    """Return the reason that a library gives, without what follows it."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
