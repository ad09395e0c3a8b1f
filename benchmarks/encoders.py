"""Time the export of a classifier with a pretrained encoder beside KerasHub's of the same backbone.

    python -m benchmarks.encoders runs/mine --output benchmarks/results/encoders.json

Texts that the run is measured on go in. This package's SavedModel, as it is and compiled by XLA,
tokenizes in its graph. KerasHub tokenizes in Python; its SavedModel is the backbone with the mean
of the states and a dense layer. The rows "ids" leave tokenizing out. All take turns in one process.
The encoder must have a WordPiece vocabulary.
"""

import argparse
import functools
import tempfile
from pathlib import Path
from typing import Any

import keras
import keras_hub
import tensorflow as tf
from keras import ops

from benchmarks.measure import interleaved_medians, machine, write_json
from keras_quasiattn.lab.serving.signatures import STRINGS, TOKEN_IDS
from keras_quasiattn.lab.tasks.encoder import states_of
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving import export

BATCHES = (1, 8, 32)
HUB = {"ids": "KerasHub, ids", "text": "KerasHub, text"}


def hub_model(place: str, classes: int) -> keras.Model:
    """KerasHub's backbone, the mean of its states over the tokens, and a dense layer."""
    backbone = states_of(keras_hub.models.Backbone.from_preset(place))
    mask = ops.cast(backbone.input["padding_mask"], "float32")[..., None]
    mean = ops.sum(backbone.output * mask, axis=1) / ops.sum(mask, axis=1)
    return keras.Model(backbone.input, keras.layers.Dense(classes, activation="softmax")(mean))


def measured(run: str, data_dir: str, repeats: int, seconds: float) -> list[dict[str, Any]]:
    """One row for each number of texts and way of asking; ratios are over KerasHub's."""
    folder = RunFolder.open(run, finished=True)
    task = folder.task(data_dir)
    task.prepare()
    place = task.options.model["encoder"]
    rows = []
    with tempfile.TemporaryDirectory() as saved:
        plain, compiled = (
            tf.saved_model.load(str(export(folder, task, saved, name=name, compiled=bool(number))))
            for number, name in enumerate(("plain", "compiled"))
        )
        classes = folder.load_model(task).get_layer("logits").units
        model = hub_model(place, classes)
        model.export(f"{saved}/hub", verbose=False)
        hub = tf.saved_model.load(f"{saved}/hub")
        tokenizer = keras_hub.models.Tokenizer.from_preset(place)
        for batch in BATCHES:
            texts = task.texts(task.measured_split, batch)
            length = task.tokenize(texts).inputs["ids"].shape[1]
            pack = keras_hub.layers.MultiSegmentPacker(
                sequence_length=length,
                start_value=tokenizer.cls_token_id,
                end_value=tokenizer.sep_token_id,
                pad_value=tokenizer.pad_token_id,
            )

            def prepared(texts: list[str] = texts, pack: Any = pack) -> dict[str, Any]:
                ids, segments = pack(tokenizer(texts))
                mask = ops.cast(ids != tokenizer.pad_token_id, "int32")
                given = {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
                return {name: given[name] for name in model.input}

            ragged = tf.ragged.constant(tokenizer(texts))
            given = {"text_ids": ragged.to_tensor(), "text_lengths": ragged.row_lengths()}
            ids = {name: tf.cast(one, tf.int32) for name, one in given.items()}
            strings, packed = {"text": tf.constant(texts)}, prepared()
            medians = interleaved_medians(
                {
                    "text": functools.partial(plain.signatures[STRINGS], **strings),
                    "text, compiled": functools.partial(compiled.signatures[STRINGS], **strings),
                    "ids": functools.partial(plain.signatures[TOKEN_IDS], **ids),
                    "ids, compiled": functools.partial(compiled.signatures[TOKEN_IDS], **ids),
                    HUB["text"]: lambda: hub.serve(prepared()),
                    HUB["ids"]: functools.partial(hub.serve, packed),
                },
                repeats,
                seconds,
            )
            rows += [
                {
                    "texts": batch,
                    "ids_of_longest": length,
                    "way": way,
                    "ms": ms,
                    "ratio": ms / medians[HUB["text" if "text" in way else "ids"]],
                }
                for way, ms in medians.items()
            ]
    return rows


def main() -> None:
    """Print the rows; `--output` keeps them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of a finished run of classify with --encoder")
    parser.add_argument("--data-dir", default="data")
    parser.add_argument("--repeats", type=int, default=101)
    parser.add_argument("--seconds", type=float, default=30.0, help="at most, for a batch size")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    about = machine()
    rows = measured(given.run, given.data_dir, given.repeats, given.seconds)
    for row in rows:
        print(f"{row['texts']} texts | {row['way']} | {row['ms']:.2f} ms | {row['ratio']:.2f}")
    if given.output:
        write_json({"machine": about, "rows": rows}, given.output)


if __name__ == "__main__":
    main()
