from xml.etree import ElementTree

import numpy as np
import pytest

from keras_quasiattn.attention.probe import AttentionMap, probe, with_sequences
from keras_quasiattn.core.recording import Recorded
from keras_quasiattn.layers import AttentionConflict
from keras_quasiattn.report.figures import heat_map
from keras_quasiattn.report.heat_maps import (
    Example,
    HeatMap,
    Panel,
    block_size,
    encoded,
    from_answer,
    heat_maps,
    pooled,
)

FIRST, SECOND = ["a", "b", "c"], ["v", "w"]


def one(
    matrix: np.ndarray, visible: np.ndarray | None = None, layer: str = "layer", call: int = 0
) -> AttentionMap:
    return AttentionMap(layer, "Kind", call, {"weights": Recorded(matrix, visible, "M")})


def test_an_axis_has_the_tokens_of_its_owner():
    lengths = {"first": 4, "second": 3}
    for rows, columns, expected in (
        (4, 3, (FIRST, SECOND)),
        (3, 4, (SECOND, FIRST)),
        (4, 4, (FIRST, FIRST)),
    ):
        matrix = np.arange(rows * columns, dtype="float32").reshape(1, rows, columns)
        owned = with_sequences([one(matrix)], lengths)
        (shown,) = heat_maps(owned, {"first": FIRST, "second": SECOND})
        (panel,) = shown.panels
        assert (panel.rows, panel.columns) == expected
        # The padding of either side is cut off.
        assert panel.values.shape == (1, len(expected[0]), len(expected[1]))
        assert panel.values[0, 1, 1] == columns + 1


def test_of_two_sides_of_one_length_rows_take_the_first():
    tokens = {"first": ["a", "b"], "second": ["v", "w"]}
    owned = with_sequences([one(np.zeros((1, 2, 2)))], {"first": 2, "second": 2})
    (shown,) = heat_maps(owned, tokens)
    assert shown.panels[0].rows == ["a", "b"] and shown.panels[0].columns == ["v", "w"]
    # A call with different lengths decides, whatever the lengths of these texts.
    owned = with_sequences(owned, {"first": 2, "second": 3}, [one(np.zeros((1, 3, 2)))])
    (shown,) = heat_maps(owned, tokens)
    assert shown.panels[0].rows == ["v", "w"] and shown.panels[0].columns == ["a", "b"]
    (shown,) = heat_maps([one(np.zeros((1, 5, 6)))], {})
    assert shown.panels[0].columns == ["1", "2", "3", "4", "5", "6"]


def test_masked_pairs_and_pooled_sequences():
    seen = one(np.ones((2, 3)), np.array([[1, 1, 0], [1, 0, 0]], bool))
    # The batch axis of a pooled sequence is not a sequence axis.
    owned = with_sequences([seen], {"batch": 2, "first": 3})
    (shown,) = heat_maps(owned, {"first": FIRST, "batch": SECOND}, index=1)
    (panel,) = shown.panels
    assert panel.rows == [""] and panel.columns == FIRST
    np.testing.assert_array_equal(panel.values, [[[1, np.nan, np.nan]]])


def test_heads_and_free_axes_become_heads():
    (shown,) = heat_maps([one(np.zeros((1, 5, 2, 4, 3)))], {})
    assert shown.panels[0].values.shape == (10, 4, 3) and shown.heads == 10


def test_attention_and_conflict_of_one_pair_stand_side_by_side():
    layer = AttentionConflict(2, name="both")
    u, v = np.ones((1, 3, 2), "float32"), np.ones((1, 2, 2), "float32")
    layer([u, v])
    (shown,) = heat_maps(probe(layer, [u, v])[1], {})
    assert shown.name == "both"
    assert ["AlignmentAttention" in panel.title for panel in shown.panels] == [True, False]


def test_answers_bring_their_maps():
    weights = {
        "weights_first": [[0.1, 0.9], [0.5, 0.5], [1, 0]],
        "weights_second": [[0.2, 0.3, 0.5], [0, 0, 1]],
    }
    first, second = from_answer(
        {"label": "a", "first_tokens": FIRST, "second_tokens": SECOND, **weights}
    )
    assert (first.panels[0].rows, first.panels[0].columns) == (FIRST, SECOND)
    assert (second.panels[0].rows, second.panels[0].columns) == (SECOND, FIRST)
    both = {"attention_first": weights["weights_first"], "conflict_first": weights["weights_first"]}
    (side_by_side,) = from_answer({**both, "first_tokens": FIRST, "second_tokens": SECOND})
    assert [panel.title for panel in side_by_side.panels] == [
        "attention of the first",
        "conflict of the first",
    ]
    assert from_answer({"tokens": FIRST, "weights": [0.1, 0.2, 0.7], "label": "a"}) == []


def test_large_maps_share_cells_within_the_budget():
    maps = heat_maps([one(np.zeros((1, 4, 30, 50), "float32"))], {})
    block = block_size([Example("", "", maps)], budget=3000)
    cells = [pooled(values, block) for values in maps[0].panels[0].values]
    assert (
        block == 2 and cells[0].shape == (15, 25) and 2 * sum(cell.size for cell in cells) <= 3000
    )
    assert block_size([Example("", "", maps)]) == 1


def test_values_survive_the_page_to_four_digits():
    values = np.random.default_rng(0).normal(size=(9, 7))
    data, factor = encoded(values)
    import base64

    decoded = np.frombuffer(base64.b64decode(data), "<i2").reshape(9, 7) * factor
    np.testing.assert_allclose(decoded, values, atol=1e-4)
    assert encoded(np.zeros((1, 1)))[1] > 0


def test_control_characters_and_long_tokens_spoilt_the_figure():
    tokens = ["a\x07\x1b[0m", "\udcff", "x" * 10_000]
    answer = {
        "first_tokens": tokens,
        "second_tokens": tokens,
        "weights_first": np.ones((3, 3)).tolist(),
    }
    (shown,) = from_answer(answer)
    drawn = heat_map("weights", shown)
    root = ElementTree.fromstring(drawn.light)
    assert root.tag.endswith("svg")
    assert max(map(len, shown.panels[0].rows)) <= 20


@pytest.mark.parametrize(
    ("largest", "limit"),
    [(0.04, 0.05), (0.05, 0.05), (0.9, 1.0), (1.000001, 1.0), (1.2, 2.0), (3e-4, 5e-4), (0, 1.0)],
)
def test_small_weights_looked_blank(largest, limit):
    values = np.array([[[largest, np.nan]], [[-largest / 2, 0]]])
    panel = Panel("M", values, [""], ["a", "b"])
    assert panel.limit == limit
    drawn = heat_map("weights", HeatMap("layer", [panel]))
    assert f"colours to ±{limit:g}" in drawn.caption


def test_a_matrix_without_a_visible_pair_has_a_scale():
    assert Panel("M", np.full((1, 2, 2), np.nan), ["a", "b"], ["a", "b"]).limit == 1.0
    assert Panel("M", np.zeros((1, 0, 0)), [], []).limit == 1.0


def test_the_matrix_of_a_translation_has_its_pieces():
    (shown,) = from_answer(
        {
            "answer": "x y",
            "answer_pieces": ["x", "y"],
            "source_pieces": ["a", "b", "c"],
            "weights": [[0.2, 0.3, 0.5], [0, 0, 1]],
        }
    )
    assert shown.name == "weights of the answer"
    assert (shown.panels[0].rows, shown.panels[0].columns) == (["x", "y"], ["a", "b", "c"])
