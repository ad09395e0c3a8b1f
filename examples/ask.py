"""Ask an exported model one question: `python examples/ask.py FOLDER TEXT...`.

    python examples/ask.py saved_models/arithmetic/1 'x=85,y=-52,y-x'
    python examples/ask.py saved_models/wikiqa/1 'who wrote it ?' 'It rained .' 'She wrote it .'
    python examples/ask.py saved_models/squad/1 'who wrote it ?' 'It rained .' 'She wrote it .'

It needs only this: `pip install tensorflow==2.21.* 'tensorflow-text>=2.21.1,<2.22'`.
Only the compiled kernels of tensorflow-text are loaded. The script makes importing
Keras and keras_quasiattn impossible.

Prints the answer and its log-probability. For a classifier (`saved_models/trec/1`), prints the
class, the probability of every class, and the tokens with open gates. A model over pairs takes two
texts. A ranker takes a question and its candidates, and prints the candidates best first. A reader
takes a question and its passages, and prints the answer with its probability and its place.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

ORDER = ["text", "first", "second", "question", "candidates", "passages"]


def load_text_kernels() -> None:
    """Register the ops of tensorflow-text; `import tensorflow_text` would import Keras too."""
    import tensorflow as tf

    package = importlib.util.find_spec("tensorflow_text")
    if package is None or package.origin is None:
        sys.exit(
            "ask.py: tensorflow-text is not installed: pip install 'tensorflow-text>=2.21.1,<2.22'"
        )
    for library in sorted(Path(package.origin).parent.glob("python/ops/_*.so")):
        tf.load_op_library(str(library))


def split_inputs(specs: dict[str, Any], texts: list[bytes]) -> dict[str, Any]:
    """Assign the texts to the inputs of the model; a list, such as `candidates`, takes the rest."""
    *others, last = sorted(specs, key=ORDER.index)
    listed = len(specs[last].shape) == 2
    first, rest = texts[: len(others)], texts[len(others) :]
    if not rest or (len(rest) > 1 and not listed):
        sys.exit(f"ask.py: got {len(texts)} texts: the model takes {', '.join([*others, last])}")
    return {**dict(zip(others, first, strict=True)), last: rest if listed else rest[0]}


def main() -> None:
    """Load the model, ask it and print the answer."""
    if len(sys.argv) < 3:
        sys.exit(
            "usage: python ask.py FOLDER TEXT..., such as: "
            "ask.py saved_models/arithmetic/1 'x=85,y=-52,y-x'"
        )
    folder, *texts = sys.argv[1:]
    if not (Path(folder) / "saved_model.pb").is_file():
        sys.exit(f"ask.py: {folder!r} is not a SavedModel: it has no saved_model.pb")

    if importlib.util.find_spec("tensorflow") is None:
        sys.exit("ask.py: tensorflow is not installed: pip install 'tensorflow==2.21.*'")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.modules["keras"] = sys.modules["keras_quasiattn"] = None  # type: ignore[assignment]
    import tensorflow as tf

    load_text_kernels()
    try:
        model = tf.saved_model.load(folder).signatures["serving_default"]
    except (OSError, KeyError, tf.errors.OpError) as error:
        sys.exit(f"ask.py: {folder!r} does not load: {str(error).splitlines()[0]}")
    # A text may be any bytes, not only UTF-8.
    specs = model.structured_input_signature[1]
    inputs = split_inputs(specs, [os.fsencode(text) for text in texts])
    asked = {name: tf.constant([value]) for name, value in inputs.items()}
    answer = {name: value.numpy()[0] for name, value in model(**asked).items()}
    if "ranked" in answer:
        for score, candidate in zip(answer["scores"], answer["ranked"], strict=True):
            print(f"{score:.4f} {candidate.decode('utf-8', 'replace')}")
        return
    if "answer" in answer:
        print(answer["answer"].decode("utf-8", "replace"))
        if "passage" in answer:
            place = f"passage {answer['passage']}, characters {answer['start']} to {answer['end']}"
            print(f"probability {answer['score']:.4f}, {place}")
        else:
            print(f"log-probability {answer['log_probability']:.4f}")
        return
    print(answer["label"].decode())
    for name, probability in zip(answer["classes"], answer["probabilities"], strict=True):
        print(f"{probability:.4f} {name.decode()}")
    if "gates" in answer:
        tokens = zip(answer["tokens"], answer["gates"], strict=True)
        print("open:", *(token.decode("utf-8", "replace") for token, gate in tokens if gate))


if __name__ == "__main__":
    main()
