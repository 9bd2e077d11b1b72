"""S3 and stores that speak its language."""

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The SDK's variables for an endpoint. The first that is set counts, unless lakegc.yaml or a host program says more."""
