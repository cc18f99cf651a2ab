"""Measures of what clawjob costs and how fast it is; `python -m bench` runs them."""
