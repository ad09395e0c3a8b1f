"""PyTorch's own segment reductions: Keras' versions there round float64 to float32 and fail where all is empty."""

from typing import Any

import torch

Tensor = Any


def needs_static_shapes(x: Tensor) -> bool:
    """False: PyTorch sizes a tensor by its content anywhere."""
    return False


def segment_sum(data: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """Sums of the rows of `data` (K, ...) by `segment_ids` (K,); 0 for a segment without rows."""
    zeros = torch.zeros((num_segments, *data.shape[1:]), dtype=data.dtype, device=data.device)
    return zeros.index_add(0, segment_ids, data)


def segment_max(data: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """The largest of `data` (K,) in each segment; −∞ for a segment without any."""
    lowest = torch.full((num_segments,), -torch.inf, dtype=data.dtype, device=data.device)
    return lowest.scatter_reduce(0, segment_ids.long(), data, "amax")
