"""Shows people what a model attends to.

`token_table` needs no extra; whatever draws needs the extra `report` at the time it draws, and
`write_report` reads run folders, which need the extra `tasks`.
"""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes
from keras_quasiattn.report.show import AttentionView, show
from keras_quasiattn.report.token_table import token_table

if TYPE_CHECKING:
    from keras_quasiattn.report.report_writer import write_report

__all__ = ["AttentionView", "show", "token_table", "write_report"]
__getattr__ = lazy_attributes(__name__, {"write_report": "report_writer"}, extra="tasks")
