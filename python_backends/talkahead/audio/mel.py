"""Log-mel spectrogram: the codec encoder's input, a training loss, and a distance for reports."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_FLOOR = 1e-5


def mel_filters(num_mels: int, num_fft: int, sample_rate_hz: int) -> Tensor:
    """Triangular filters with equal area on the mel scale. Returns [num_fft // 2 + 1, num_mels]."""
    top = 2595.0 * torch.log10(torch.tensor(1.0 + sample_rate_hz / 2 / 700.0, dtype=torch.float64)).item()
    mels = torch.linspace(0.0, top, num_mels + 2, dtype=torch.float64)
    edges_hz = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    bins_hz = torch.linspace(0.0, sample_rate_hz / 2, num_fft // 2 + 1, dtype=torch.float64)
    width = edges_hz[1:] - edges_hz[:-1]
    slopes = edges_hz[None, :] - bins_hz[:, None]
    rising, falling = -slopes[:, :-2] / width[:-1], slopes[:, 2:] / width[1:]
    triangles = torch.clamp(torch.minimum(rising, falling), min=0.0)
    return (triangles * 2.0 / (edges_hz[2:] - edges_hz[:-2])).float()


class LogMel(nn.Module):
    """Natural-log mel spectrogram, frames centred at (i + 1/2) * hop.

    `forward`: audio [B, N] with N a multiple of `hop` -> [B, N / hop, num_mels].
    """

    window: Tensor
    filters: Tensor

    def __init__(
        self, sample_rate_hz: int = 16_000, num_fft: int = 1024, hop: int = 160, num_mels: int = 80
    ) -> None:
        super().__init__()
        self.num_fft, self.hop = num_fft, hop
        self.register_buffer("window", torch.hann_window(num_fft), persistent=False)
        self.register_buffer("filters", mel_filters(num_mels, num_fft, sample_rate_hz), persistent=False)

    def forward(self, audio: Tensor) -> Tensor:
        edge = (self.num_fft - self.hop) // 2
        padded = functional.pad(audio, (edge, self.num_fft - self.hop - edge))
        frames = padded.unfold(-1, self.num_fft, self.hop) * self.window
        # Not `.abs()`: on complex tensors it takes four times as long as the same in real numbers.
        power = torch.view_as_real(torch.fft.rfft(frames)).square().sum(-1)
        magnitude = torch.sqrt(power + _FLOOR**4)
        return torch.log(torch.clamp(magnitude @ self.filters, min=_FLOOR))
