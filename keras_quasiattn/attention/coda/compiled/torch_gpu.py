"""The compiled passes on NVIDIA GPUs, with PyTorch and Triton."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from keras_quasiattn.attention.coda.compiled.call import CodaCall
from keras_quasiattn.attention.coda.compiled.triton_kernels import gradients_kernel, sums_kernel
from keras_quasiattn.core.compiled.arrays import whole

Tensor = torch.Tensor
_MULTIPLE = 128  # of positions, by padding
# Positions of a tile; measured on an H200 (benchmarks/results/triton_tiles.json).
SUMS_TILE, GRADIENTS_TILE = 32, 16
_LEAST = 16  # features of a product on tensor cores
_FACTORS = ("alpha", "beta", "similarity_offset", "distance_offset")


def _power(features: int) -> int:
    """Return the number of features that a product on tensor cores takes."""
    return max(_LEAST, 1 << max(0, features - 1).bit_length())


def own_size(width: int, values: int) -> int:
    """Return how many positions a program owns, so that its tensors fit 227 KiB of shared memory.

    The gradients need at most (width + values + 16) KiB for 128 positions, where `width` is the
    number of features of queries and keys, and `values` that of all values, both powers of two.
    """
    return 128 if width + values <= 192 else 64 if width + values <= 384 else 32


def _padded(x: Tensor) -> Tensor:
    """Pad (B, L, n) with zeros to whole programs of positions and a power of two features."""
    _, length, features = x.shape
    missing = (0, _power(features) - features, 0, whole(length, _MULTIPLE) - length)
    return pad(x, missing).contiguous()


def _transposed(x: Tensor) -> Tensor:
    """Transpose (B, L, n) to (B, n, L), padded with zeros to whole programs of positions."""
    return pad(x.transpose(1, 2), (0, whole(x.shape[1], _MULTIPLE) - x.shape[1])).contiguous()


class Problem:
    """The inputs of both kernels: the two sequences are the "query" side and the "key" side."""

    def __init__(self, call: CodaCall, tensors: dict[str, Tensor]) -> None:
        self.tensors, value = tensors, tensors["value"]
        self.batch, device = value.shape[0], value.device
        self.lengths = {"query": tensors["beta"].shape[1], "key": value.shape[1]}
        full = tensors.get("full_mask")
        real = tensors.get("key_mask", torch.ones((1, 1, self.lengths["key"]), device=device)) != 0
        if full is not None:  # a key that no query attends to is padding
            real = real & (full != 0).any(1, keepdim=True)[tensors["full_index"].long()]
        real = real[..., : self.lengths["key"]].transpose(1, 2)  # (B or 1, S, 1)
        rows = tensors.get("row_mask", torch.ones((1, self.lengths["query"], 1), device=device))
        self.masks = {
            name: _transposed((mask != 0).expand(self.batch, -1, -1).to(torch.uint8))
            for name, mask in {"query": rows, "key": real}.items()
        }
        self.sides, self.features = {}, {}
        of_features = "" if call.compares_same else "distance_"
        for name, length in self.lengths.items():
            nothing = value.new_zeros((self.batch, length, 0))
            side = tensors.get(name, nothing)
            features = tensors.get(of_features + name, nothing)
            if name == "key":  # the content of a hidden key has no effect, NaN included
                side, features = (torch.where(real, x, 0) for x in (side, features))
            self.sides[name], self.features[name] = _padded(side), _transposed(features)
        self.value = torch.where(real, value, 0)
        zeros = torch.zeros_like(tensors["beta"])
        self.factors = _transposed(torch.cat([tensors.get(name, zeros) for name in _FACTORS], 2))
        # A kernel does not read inputs that are flagged as absent.
        self.full_mask = self.full_index = self.dropout_keys = self.factors
        self.mask_strides, mask_size = {"query": 0, "key": 0}, 0
        if full is not None:
            missing = [whole(length, _MULTIPLE) - length for length in full.shape[1:]]
            self.full_mask = pad((full != 0).to(torch.uint8), (0, missing[1], 0, missing[0]))
            self.full_index = tensors["full_index"].long().contiguous()
            self.mask_strides = {"query": self.full_mask.shape[2], "key": 1}
            mask_size = self.full_mask.shape[1] * self.full_mask.shape[2]
        if call.dropout:
            self.dropout_keys = tensors["dropout_keys"].int().contiguous()
        pooled = [tensors[one].shape[2] for one in ("value", "other_value") if one in tensors]
        self.own_size = own_size(self.sides["key"].shape[2], _power(sum(pooled)))
        exact = torch.get_float32_matmul_precision() == "highest"
        self.numbers = (mask_size, round(call.dropout * (1 << 24)), 1 / (1 - call.dropout))
        self.options = {
            "similarity": call.similarity,
            "gate": call.gate,
            "scale": float(call.scale),
            "is_causal": call.is_causal,
            "has_full_mask": full is not None,
            "has_dropout": call.dropout > 0,
            "feature_count": self.features["key"].shape[1],
            "width": self.sides["key"].shape[2],
            "own_size": self.own_size,
            "precision": "tf32x3" if exact else "tf32",
            "num_warps": self.own_size // 32,  # a thread for each position
        }

    def launch(self, kernel: Any, own: str, *tensors: Tensor, **options: Any) -> None:
        """Run a kernel with a program for every `own_size` positions of the side `own`."""
        other = "key" if own == "query" else "query"
        lengths = [self.features[name].shape[2] for name in (own, other)]
        given = (self.sides, self.features, self.masks)
        with torch.cuda.device_of(self.factors):  # Triton launches on the current GPU
            kernel[(lengths[0] // self.own_size * self.batch,)](
                *(of[name] for of in given for name in (own, other)),
                self.factors,
                self.full_mask,
                self.full_index,
                self.dropout_keys,
                *tensors,
                *lengths,
                *(self.mask_strides[name] for name in (own, other)),
                *self.numbers,
                own_is_query=own == "query",
                **self.options,
                **options,
            )

    def sums(self, own: str, values: Tensor) -> Tensor:
        """Return M · values for each query, or Mᵀ · values for each key."""
        padded = _padded(values)
        output = padded.new_empty((self.batch, self.features[own].shape[2], padded.shape[2]))
        self.launch(
            sums_kernel, own, padded, output, value_width=padded.shape[2], tile_size=SUMS_TILE
        )
        return output[:, : self.lengths[own], : values.shape[2]].contiguous()

    def gradients(
        self, own: str, own_slopes: Tensor, other_slopes: Tensor, pooled_slopes: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the gradients of one side, "query" or "key".

        dM is the product of `own_slopes` (B, own positions, n) and `other_slopes` (B, other
        positions, n). The sum of `pooled_slopes` (B, other positions, V) by M is the gradient of
        what the other side pools, if it pools anything.
        """
        has_values = pooled_slopes is not None
        own_slopes, other_slopes = _padded(own_slopes), _padded(other_slopes)
        pooled = own_slopes[..., :_LEAST] if pooled_slopes is None else _padded(pooled_slopes)
        side, features = self.sides[own], self.features[own]
        found = {
            "side": torch.empty_like(side),
            "features": torch.zeros_like(features),
            "factors": torch.empty_like(self.factors),
            "values": side.new_empty((self.batch, side.shape[1], pooled.shape[2])),
        }
        programs, row = side.shape[0] * side.shape[1] // self.own_size, self.own_size + 1
        scratch = side.new_empty(programs * GRADIENTS_TILE * row)
        self.launch(
            gradients_kernel,
            own,
            own_slopes,
            other_slopes,
            pooled,
            *found.values(),
            scratch,
            has_values=has_values,
            slope_width=own_slopes.shape[2],
            value_width=pooled.shape[2],
            scratch_row=row,
            tile_size=GRADIENTS_TILE,
            on_device=side.is_cuda,
        )
        length = self.lengths[own]
        results = {own: found["side"][:, :length], "values": found["values"][:, :length]}
        results[f"distance_{own}"] = found["features"].transpose(1, 2)[:, :length]
        factors = found["factors"].transpose(1, 2)[:, :length]
        if own == "query":
            results |= {name: factors[..., i : i + 1] for i, name in enumerate(_FACTORS)}
        return results


def forward(call: CodaCall, tensors: dict[str, Tensor]) -> list[Tensor]:
    """Return M · value (B, T, V), and Mᵀ · other_value (B, S, W); tensors are as for `Passes`."""
    problem = Problem(call, tensors)
    outputs = [problem.sums("query", problem.value)]
    if "other_value" in tensors:
        outputs.append(problem.sums("key", tensors["other_value"]))
    return outputs


def backward(
    call: CodaCall, upstreams: Sequence[Tensor], tensors: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return the gradients of the tensors by name, from the gradients of the results."""
    problem = Problem(call, tensors)
    # dM = upstream · valueᵀ + other_value · other_upstreamᵀ, as one product.
    of_query, of_key, pooled = [upstreams[0]], [problem.value], None
    if "other_value" in tensors:
        pooled = upstreams[1]
        of_query.append(tensors["other_value"])
        of_key.append(pooled)
    slopes = {"query": torch.cat(of_query, 2), "key": torch.cat(of_key, 2)}
    found = problem.gradients("query", slopes["query"], slopes["key"], pooled)
    other_value = found.pop("values")
    found |= problem.gradients("key", slopes["key"], slopes["query"], upstreams[0])
    found |= {"value": found["values"], "other_value": other_value}
    if call.compares_same:
        for name in problem.lengths:
            width = tensors[name].shape[2]
            found[name] = found[name][..., :width] + found[f"distance_{name}"]
    # Cut off the features that pad to a power of two.
    names = [name for name in tensors if name in found]
    return {name: found[name][..., : tensors[name].shape[2]].contiguous() for name in names}
