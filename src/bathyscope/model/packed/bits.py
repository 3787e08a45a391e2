"""Whole numbers of a few bits, one behind another in words of 32 bits; and numbers of four bits with an exponent."""

from typing import Final

import torch
from torch import Tensor

_WORD: Final = 32
_FP4: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_EXPONENT_BIAS: Final = 127


def words_for(count: int, bits: int) -> int:
    """Return how many words hold this many numbers without a gap."""
    return -(-count * bits // _WORD)


def unpack_words(words_RW: Tensor, bits: int, count: int) -> Tensor:
    """Unpack whole numbers that begin at the lowest bit of the first word, and may cross from one word to the next.

    Args:
        words_RW: int32 [rows, words].
        bits: of each number, 1 to 8.
        count: how many numbers a row has.

    Returns:
        int32 [rows, count], from 0 to 2**bits − 1.
    """
    mask = (1 << bits) - 1
    if _WORD % bits == 0:
        shifts = torch.arange(0, _WORD, bits, dtype=torch.int32)
        # the sign is shifted in from above, and masked
        return ((words_RW[:, :, None] >> shifts) & mask).flatten(1)[:, :count]
    unsigned_RW = words_RW.long() & 0xFFFFFFFF
    starts = torch.arange(count) * bits
    first, offset = starts // _WORD, starts % _WORD
    following = (first + 1).clamp_max(words_RW.shape[1] - 1)
    both = (unsigned_RW[:, first] >> offset) | (unsigned_RW[:, following] << (_WORD - offset))
    return (both & mask).int()


def unpack_fp4(bytes_RN: Tensor) -> Tensor:
    """Unpack numbers of four bits (a sign, two bits of exponent, one of mantissa), the lower half of a byte first.

    Args:
        bytes_RN: uint8, two numbers each along the last axis.
    """
    table = torch.tensor([*_FP4, *(-value for value in _FP4)])
    return torch.stack([table[(bytes_RN & 15).long()], table[(bytes_RN >> 4).long()]], -1).flatten(-2)


def as_scale(stored: Tensor) -> Tensor:
    """Return scales in float32; bytes are exponents of two, as in the MX formats."""
    return torch.exp2(stored.float() - _EXPONENT_BIAS) if stored.dtype == torch.uint8 else stored.float()


def spread(values: Tensor, shape: tuple[int, ...], block: tuple[int, ...]) -> Tensor:
    """Repeat one value for each block of a weight until it has the weight's shape; the last blocks may be cut."""
    for axis, (size, length) in enumerate(zip(shape, block)):
        if length > 1:
            # no more than is kept: a block may be declared larger than the weight without end
            values = values.repeat_interleave(min(length, size), axis).narrow(axis, 0, size)
    return values
