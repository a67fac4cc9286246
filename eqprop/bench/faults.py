"""What can go wrong with a device. Both are errors of input and output, as a disk's are."""


class DeviceError(OSError):
    """A device failed, and was tried often enough. What is on disk is good; nothing wrong was learned."""


class RefusedError(DeviceError):
    """What a device gave cannot be used, after all retries; it may be asked for something else."""
