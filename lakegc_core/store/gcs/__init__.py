"""Google Cloud Storage. Needs the extra `gcs`."""
