"""The one-machine mode: the whole service in one process, on an emulator of AWS, feeding the very same handlers."""
