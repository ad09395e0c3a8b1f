"""What a model attends to, for people to read.

`token_table` needs nothing further; what draws needs the extra `report` when it draws.
"""

from keras_quasiattn.report.report_writer import write_report
from keras_quasiattn.report.show import AttentionView, show
from keras_quasiattn.report.token_table import token_table

__all__ = ["AttentionView", "show", "token_table", "write_report"]
