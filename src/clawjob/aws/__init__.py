"""Everything that speaks to AWS; the only folder that imports boto3."""
