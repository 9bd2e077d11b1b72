"""The job that asks what keeps the objects of one repository: `du` and `whatif` of its newest complete mark.

Both need Spark and a pass over the mark, so nothing asks by itself. They change nothing and delete nothing.
"""

from typing import Any

import dagster as dg
from pydantic import Field

from lakegc_core.answers.du import du
from lakegc_core.answers.whatif import Wish, whatif
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.metadata.results import answers_metadata
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.repository import newest_mark, show_answers
from lakegc_dagster.resources import resource_of


class AnswersConfig(dg.Config):
    """Whom the answers are about."""

    repository: str = Field(description="The repository, whose newest complete mark is asked.")


def answers(options: LakegcConfig) -> Any:
    """The op of the job `gc_answers`. It works in the process of the step, wherever marks are made."""

    @dg.op(
        name=options.job_name("answers"),
        description="Ask what each branch, tag and hold keeps, and what each number of days would keep.",
        required_resource_keys={options.resource_key},
        retry_policy=READING_RETRIES,
    )
    def ask(context: dg.OpExecutionContext, config: AnswersConfig) -> None:
        lakegc = resource_of(options, context)
        with told_as_failures():
            mark = newest_mark(lakegc.open(GcCell.checked(config.repository, "any"), context.log.info))
            mark.mark.chain()  # as it was sealed
            usage, rules = du(lakegc.spark, mark), whatif(lakegc.spark, mark, Wish({}))
        metadata = answers_metadata(usage, rules)
        context.add_output_metadata(metadata)
        show_answers(context, options, mark, metadata)

    return ask
