"""The worker and the processes that it starts."""
