"""The function that compares a new scheduler with the old one."""
