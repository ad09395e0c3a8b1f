"""PyTorch's own maximum: Keras' version there rounds float64 to float32."""

from torch import maximum

__all__ = ["maximum"]
