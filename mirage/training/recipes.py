"""Settings for fine-tuning, including those of the BERGEN and MIRAGE-Bench papers."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.errors import SettingError


@dataclass(frozen=True)
class TuningRecipe:
    """Settings of fine-tuning, by default those of BERGEN (arXiv 2407.01102, Table 8).

    Attributes:
        learning_rate: Peak learning rate of AdamW.
        schedule: Learning rate schedule after the warm-up, by its name in ``transformers``.
        warmup: Share of the training steps in which the learning rate rises to its peak.
        weight_decay: Weight decay of AdamW.
        epochs: Number of passes over the examples.
        batch_size: Number of examples per step. BERGEN's Table 8 says "max. possible" on one A100
            with 80 GB; 16 is the default of this library.
        max_length: Maximum number of tokens of an example. Longer examples are left out of the
            training. BERGEN uses at most 2,048 tokens (section 4).
        rank: Rank of the two LoRA matrices of each layer (Hu et al. 2022, arXiv 2106.09685, section
            4.1).
        alpha: Scaling parameter of LoRA: the product of the two matrices is multiplied by
            ``alpha / rank``.
        dropout: Dropout rate that is applied to the input of the LoRA matrices.
        layers: Names of the layers that get LoRA matrices, or ``all-linear`` for all linear layers
            except the last.

    Raises:
        SettingError: If a number is out of range.

    Example:
        >>> TuningRecipe(rank=8, alpha=16).learning_rate
        0.0001
    """

    learning_rate: float = 1e-4
    schedule: str = "linear"
    warmup: float = 0.05
    weight_decay: float = 0.1
    epochs: float = 1
    batch_size: int = 16
    max_length: int = 2048
    rank: int = 32
    alpha: int = 64
    dropout: float = 0.1
    layers: str | tuple[str, ...] = "all-linear"

    def __post_init__(self) -> None:
        counts = (self.epochs, self.batch_size, self.max_length, self.rank, self.alpha)
        shares = (self.warmup, self.dropout)
        if (
            not all(number > 0 for number in (self.learning_rate, *counts))
            or not all(0 <= share < 1 for share in shares)
            or not self.weight_decay >= 0
        ):
            raise SettingError(
                "learning_rate, epochs, batch_size, max_length, rank and alpha must be above 0, "
                "weight_decay at least 0, and warmup and dropout at least 0 and below 1; got "
                f"{self}"
            )


BERGEN_TUNING = TuningRecipe()
"""BERGEN's settings (arXiv 2407.01102, Table 8)."""

MIRAGE_BENCH_TUNING = TuningRecipe(
    learning_rate=2e-4,
    warmup=0,
    weight_decay=0,
    batch_size=32,
    max_length=6144,
    rank=16,
    alpha=16,
    dropout=0.05,
    layers=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
)
"""MIRAGE-Bench's settings (arXiv 2410.13716, Table 6).

The paper does not report the schedule, the warm-up and the weight decay, so these have the defaults
of ``transformers``.
"""
