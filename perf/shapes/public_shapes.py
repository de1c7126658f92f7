"""The shapes of public talkers as they are served: their speech tokens and the end of speech alone."""

from __future__ import annotations

from talkahead.backbone.decoder_config import DecoderConfig, Llama3Scaling

_LLAMA3 = Llama3Scaling(32.0, 1.0, 4.0, 8_192)
PUBLIC_SHAPES = {
    "llasa-1b": DecoderConfig(
        vocab_size=65_537,
        eos_token_id=65_536,
        hidden_size=2_048,
        intermediate_size=8_192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        max_position_embeddings=2_048,
        rope_theta=500_000.0,
        rope_scaling=_LLAMA3,
        tie_word_embeddings=True,
        dtype="bfloat16",
    ),
    "neutts-air": DecoderConfig(
        vocab_size=65_537,
        eos_token_id=65_536,
        hidden_size=896,
        intermediate_size=4_864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=2_048,
        rms_norm_eps=1e-6,
        rope_theta=1_000_000.0,
        tie_word_embeddings=True,
        model_type="qwen2",
        dtype="bfloat16",
    ),
    "orpheus-3b": DecoderConfig(
        vocab_size=28_673,
        eos_token_id=28_672,
        hidden_size=3_072,
        intermediate_size=8_192,
        num_hidden_layers=28,
        num_attention_heads=24,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=2_048,
        rope_theta=500_000.0,
        rope_scaling=_LLAMA3,
        dtype="bfloat16",
    ),
}
