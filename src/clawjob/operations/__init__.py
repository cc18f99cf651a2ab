"""What the service does, one verb for each module."""
