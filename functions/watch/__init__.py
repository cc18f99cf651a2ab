"""The function that watches a new scheduler after it has the ticks."""
