import numpy as np
import pytest
from pair_kinds import FIRST, SECOND, answer, lively, make
from tools import to_numpy

HEADS = {
    "none": [],
    "attention": ["attention"],
    "attentions": ["attention", "second_attention"],
    "conflict": ["conflict"],
    "both": ["attention", "conflict"],
}


@pytest.mark.parametrize("interaction", HEADS)
def test_explained_weights_are_of_the_heads_that_there_are(interaction):
    model = lively(make(interaction))
    explained = {name: to_numpy(x) for name, x in model.explain(FIRST, SECOND).items()}
    np.testing.assert_allclose(explained.pop("logits"), answer(model), atol=1e-6)
    assert set(explained) == {
        f"{head}_{side}" for head in HEADS[interaction] for side in ("first", "second")
    }
    real = (FIRST != 0)[:, :, None] & (SECOND != 0)[:, None, :]
    for name, weights in explained.items():
        shown = real if name.endswith("first") else real.swapaxes(1, 2)
        assert not weights[~shown].any()
        np.testing.assert_allclose(weights.sum(-1), shown.any(-1), atol=1e-5)


@pytest.mark.parametrize("interaction", ["attentions", "both"])
def test_one_encoder_and_one_interaction_serve_both_texts(interaction):
    """Swapping the texts, and both halves of the first dense kernel, gives the same logits."""
    model = lively(make(interaction))
    given = answer(model)
    kernel = next(weight for weight in model.weights if weight.path.endswith("dense_0/kernel"))
    halves = np.split(to_numpy(kernel), 2)
    kernel.assign(np.concatenate(halves[::-1]))
    np.testing.assert_allclose(answer(model, SECOND, FIRST), given, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "shown_in"),
    [({"pooling": "mean"}, "logits"), ({"difference": "squared"}, "conflict_first")],
)
def test_pooling_and_difference_matter(changed, shown_in):
    model, other = lively(make("both")), make("both", **changed)
    other.set_weights(model.get_weights())
    given, found = (to_numpy(one.explain(FIRST, SECOND)[shown_in]) for one in (model, other))
    assert np.abs(found - given).max() > 1e-3
