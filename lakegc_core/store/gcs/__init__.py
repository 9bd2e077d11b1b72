"""Google Cloud Storage. Needs the extra `gcs`."""

ENDPOINT_VARIABLE = "STORAGE_EMULATOR_HOST"
"""The SDK's variable for an endpoint. It counts unless lakegc.yaml says more."""
