"""Run the notebooks and save their outputs: `python examples/notebooks/execute.py [NAME...]`.

Needs the extras `docs`, `tasks` and `report`. TensorFlow's log messages and the times at which
cells ran are not saved.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


def executed(notebook: Path) -> nbformat.NotebookNode:
    """Return the notebook with new outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    node = nbformat.read(notebook, as_version=4)
    NotebookClient(
        node, timeout=600, record_timing=False, resources={"metadata": {"path": str(HERE)}}
    ).execute()
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    node.metadata.pop("language_info", None)
    return node


def main() -> None:
    """Execute the notebooks in place."""
    chosen = [HERE / name for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb"))
    for notebook in chosen:
        nbformat.write(executed(notebook), notebook)
        print(f"{notebook.name}: {notebook.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
