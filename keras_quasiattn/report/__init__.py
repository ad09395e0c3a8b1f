"""Pages and figures that show what a model attends to.

`token_table` needs no extra; figures need the extra `report`. `write_report` reads training runs;
it is defined in `keras_quasiattn.lab.report`, which is imported on first use and needs the extra
`tasks`.
"""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes
from keras_quasiattn.report.attention_view import AttentionView, show
from keras_quasiattn.report.token_table import token_table

if TYPE_CHECKING:
    from keras_quasiattn.lab.report.write_report import write_report

__all__ = ["AttentionView", "show", "token_table", "write_report"]
__getattr__ = lazy_attributes(
    __name__, {"write_report": "keras_quasiattn.lab.report.write_report"}, extra="tasks"
)
