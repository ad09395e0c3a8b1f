"""TFDS builders and tf.data pipelines."""
