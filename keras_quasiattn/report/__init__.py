"""Reports of what a model attends to: tables, figures and HTML pages.

`token_table` needs no further package. Drawing needs the extra `report`, at the time it draws.
"""

from keras_quasiattn.report.report_writer import write_report
from keras_quasiattn.report.show import AttentionView, show
from keras_quasiattn.report.token_table import token_table

__all__ = ["AttentionView", "show", "token_table", "write_report"]
