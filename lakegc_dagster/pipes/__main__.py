"""`python -m lakegc_dagster.pipes`: the external process, where environment variables tell it about Dagster."""

from lakegc_dagster.pipes.external import main

if __name__ == "__main__":
    raise SystemExit(main())
