"""A language model with softmax and with CoDA on text that the script makes up.

    python examples/language_model.py

Each line says who likes what, and repeats it: "ann often likes hot tea . so ann drinks hot tea ."
Only the first half predicts the repeated words, not the word just before. The script trains each
model on the same lines, and compares it on other lines with the unigrams and the bigrams of the
training text. Then the model continues a prompt.
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.models import CausalTransformer, SequenceCrossentropy, sampling_search

END = 1  # also the start symbol; 0 is padding
NAMES = ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"]
COLOURS = ["red", "green", "black", "white", "cold", "hot", "sweet", "weak"]
DRINKS = ["tea", "milk", "juice", "water", "coffee", "cocoa"]
FILLERS = ["really", "often", "sometimes", "always"]
WORDS = ["", "<end>", *NAMES, *COLOURS, *DRINKS, *FILLERS, "likes", "drinks", "so", "."]
IDS = {word: number for number, word in enumerate(WORDS)}
LENGTH = 15


def lines(count: int, seed: int) -> np.ndarray:
    """Return ids (count, LENGTH): lines with an end, padded with 0."""
    draw = np.random.default_rng(seed)
    ids = np.zeros((count, LENGTH), "int32")
    for row in ids:
        name, colour, drink = draw.choice(NAMES), draw.choice(COLOURS), draw.choice(DRINKS)
        first = [name, *draw.choice(FILLERS, draw.integers(0, 3)), "likes", colour, drink, "."]
        second = [name, *draw.choice(FILLERS, draw.integers(0, 2)), "drinks", colour, drink, "."]
        words = [*first, "so", *second]
        row[: len(words) + 1] = [*(IDS[word] for word in words), END]
    return ids


def shifted(ids: np.ndarray) -> np.ndarray:
    """Return the model's input: the start symbol and all tokens but the last."""
    return np.pad(ids, ((0, 0), (1, 0)), constant_values=END)[:, :-1]


def unigram_loss(train: np.ndarray, test: np.ndarray) -> float:
    """Return nats per token of `test` by the count of each token in `train`, plus one."""
    counts = np.bincount(train[train != 0], minlength=len(WORDS)) + 1.0
    counts[0] = 0
    return float(-np.log(counts[test[test != 0]] / counts.sum()).mean())


def bigram_loss(train: np.ndarray, test: np.ndarray) -> float:
    """Return the same given the token before."""
    counts = np.ones((len(WORDS), len(WORDS)))
    counts[:, 0] = 0
    real = train != 0
    np.add.at(counts, (shifted(train)[real], train[real]), 1)
    shares = counts / counts.sum(1, keepdims=True)
    real = test != 0
    return float(-np.log(shares[shifted(test)[real], test[real]]).mean())


def main() -> None:
    """Train both models, and print their losses and what they say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    train, test = lines(arguments.examples, seed=0), lines(500, seed=1)
    print(f"unigram: {unigram_loss(train, test):.3f} nats per token")
    print(f"bigram: {bigram_loss(train, test):.3f} nats per token")
    for attention in ("softmax", "coda"):
        keras.utils.set_random_seed(0)
        model = CausalTransformer(
            len(WORDS),
            num_layers=2,
            hidden_dim=32,
            intermediate_dim=64,
            num_heads=4,
            attention=attention,
            dropout=0.0,
        )
        model.compile(keras.optimizers.Adam(3e-3), SequenceCrossentropy())
        model.fit(shifted(train), train, epochs=arguments.epochs, batch_size=32, verbose=0)
        # In one batch: the loss of several batches is the mean of their means.
        loss = model.evaluate(shifted(test), test, batch_size=len(test), verbose=0)
        print(f"{attention}: {loss:.3f} nats per token, {model.count_params():,} weights")
        prompt = np.array([[IDS["eve"], IDS["likes"]]])
        tokens, _ = model.generate(prompt, LENGTH, sampling_search, seed=0)
        said = keras.ops.convert_to_numpy(tokens)[0]
        print("   ", *(WORDS[token] for token in said if token > END))


if __name__ == "__main__":
    main()
