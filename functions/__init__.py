"""What Lambda starts: a few lines for each function."""
