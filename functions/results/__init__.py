"""The results function."""
