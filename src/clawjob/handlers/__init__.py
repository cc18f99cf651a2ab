"""A Lambda event in, one operation, the answer out."""
