"""A downloaded folder becomes a repository whose compact talker draws what transformers draws."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from public_folders import (
    CODES,
    Public,
    greedy_codes,
    medusa_heads,
    write_codec,
    write_llasa,
    write_llasa_plus,
    write_neutts,
    write_orpheus,
)
from safetensors.torch import load_file, save_file
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import SamplingDefaults
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import Draft, load_drafter
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.draft_pool import DraftPool
from talkahead.drafting.offer import read_offer
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import Frames
from talkahead.families.imported_checkpoint import Download, ImportedCheckpoint
from talkahead.families.importing import read_checkpoint
from talkahead.families.registry import load_family
from talkahead.families.repository_writer import new_repository, write_repository
from talkahead.generation_config import read_sampling
from talkahead.manifest import Manifest, sha256
from talkahead.speech_format import SpeechFormat
from torch import Tensor

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

WRITERS: dict[str, Callable[[Path], Public]] = {
    "llasa": write_llasa,
    "orpheus": write_orpheus,
    "neutts": write_neutts,
}
MODELS = ("vocoder", "frontend", "encoder", "talker")
CPU = torch.device("cpu")
STEPS = 21
VOICE = {"text": "My name is Jo.", "codes": [3, 1, 4, 1, 5, 9, 2, 6]}


class Imported:
    """A family's public folders, and the repository that they became."""

    def __init__(self, family: str, folder: Path) -> None:
        self.family, self.download = family, Download(folder / "public", folder / "codec")
        self.public = WRITERS[family](self.download.folder)
        (self.download.folder / "voices").mkdir()
        (self.download.folder / "voices" / "jo.json").write_text(json.dumps(VOICE))
        write_codec(family, self.download.codec)
        self.repository = folder / "repository"
        self.checkpoint = read_checkpoint(family, self.download)
        self.speech = write_repository(self.checkpoint, self.repository)

    def version(self, model: str) -> Path:
        return self.repository / model / "1"


@pytest.fixture(scope="module", params=list(WRITERS))
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return Imported(request.param, tmp_path_factory.mktemp(request.param))


def draw_greedily(talker: Path, prompt: Tensor, steps: int) -> list[int]:
    """Tokens of the compact talker in float64, each after a prefill of all before it; -1 is the end."""
    checkpoint = Checkpoint(talker)
    decoder = SlotDecoder(checkpoint.config, checkpoint, num_slots=1, max_positions=300, dtype=torch.float64)
    table = checkpoint["model.embed_tokens.weight"].double()
    rows, tokens = prompt.double(), list[int]()
    while len(tokens) < steps and -1 not in tokens:
        token = int(decoder.prefill([0], rows[None], [len(rows)]).logits.argmax())
        rows = torch.cat([rows, table[token][None]])
        tokens.append(-1 if token == checkpoint.config.eos else token)
    return tokens


def ids_in_public(imported: Imported, units: list[int], voice: str | None, codes: Frames) -> list[int]:
    """The prompt as the public tokenizer has it, marks replaced by what belongs there."""
    words = "tara:" if voice == "tara" else ""
    steps = codes + np.arange(codes.shape[1]) * CODES
    spoken = imported.checkpoint.encoder.first_speech + steps.flatten()
    put = {-2: imported.public.tokenizer.encode(words, add_special_tokens=False), -3: spoken.tolist()}
    return [one for unit in units for one in put.get(unit, [unit])]


@pytest.mark.parametrize("is_like_a_recording", [False, True])
def test_the_compact_talker_draws_what_transformers_draws(
    imported: Imported, is_like_a_recording: bool
) -> None:
    family = load_family(imported.family)
    frontend = family.frontend(imported.version("frontend"), imported.speech)
    encoder = family.prompt_encoder(imported.version("encoder"), CPU)
    voices = family.voices(imported.version("encoder"))
    width = len(imported.speech.codebooks)
    reference, said, voice = None, None, 0
    codes = np.zeros((0, width), np.int32)
    if is_like_a_recording:
        reference = codes = np.random.default_rng(1).integers(0, CODES, (5, width)).astype(np.int32)
        said, voice = "It's easy to tell.", len(voices)
    elif imported.family == "neutts":
        said, codes = voices[0].said, np.array(VOICE["codes"], np.int32)[:, None]
        assert said == VOICE["text"]
    (segment,) = frontend.segments("Hello there, fine punch!", said)
    prompt = encoder.prompt(segment.units, voice, reference)
    assert prompt.dtype == torch.float32
    ids = ids_in_public(imported, segment.units[:, 0].tolist(), voices[0].name if voice == 0 else None, codes)
    speech = imported.checkpoint.encoder
    end = imported.public.tokenizer.convert_tokens_to_ids(
        "<custom_token_2>" if imported.family == "orpheus" else "<|SPEECH_GENERATION_END|>"
    )
    expected = greedy_codes(imported.public, ids, speech.first_speech, [sum(speech.codebooks)], end, STEPS)
    assert len(set(expected)) > 3
    assert draw_greedily(imported.version("talker"), prompt, STEPS) == expected


def test_what_is_written_can_be_served(imported: Imported) -> None:
    voices = {"llasa": ("default",), "orpheus": ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")}
    family = load_family(imported.family)
    own = family.voices(imported.version("encoder"))
    assert tuple(voice.name for voice in own) == voices.get(imported.family, ("jo",))
    assert {voice.is_fixed for voice in own} == {imported.family != "llasa"}
    assert family.unit_columns == 1
    assert SpeechFormat.read(imported.version("vocoder")) == imported.speech
    assert imported.speech.family == imported.family
    assert imported.speech.max_positions == 2048
    for model in MODELS:
        manifest = Manifest.read(imported.version(model))
        manifest.verify(imported.version(model))
        assert manifest.licence
    config = Checkpoint(imported.version("talker")).config
    tokens = family.token_map(imported.speech)
    assert (config.vocab_size, config.eos) == (tokens.eos + 1, tokens.eos)
    audio = family.codec(imported.version("vocoder"), CPU).encode(
        np.zeros(4 * imported.speech.hop, np.float32)
    )
    assert audio.shape == (4, len(imported.speech.codebooks))


def test_sampling_defaults_are_the_familys(imported: Imported) -> None:
    assert (
        read_sampling(imported.version("talker"))
        == {
            "llasa": SamplingDefaults(temperature=0.8, top_p=1.0, top_k=50),
            "orpheus": SamplingDefaults(temperature=0.6, top_p=0.8, top_k=0, repetition_penalty=1.1),
            "neutts": SamplingDefaults(temperature=1.0, top_p=1.0, top_k=50),
        }[imported.family]
    )


def test_tables_keep_their_type_and_the_encoder_all_rows(tmp_path: Path) -> None:
    public = write_llasa(tmp_path / "public")
    narrow = public.model.to(torch.bfloat16)
    narrow.save_pretrained(tmp_path / "public", max_shard_size="100KB")
    assert len(list((tmp_path / "public").glob("model-*.safetensors"))) > 1
    (tmp_path / "public" / "model.safetensors").unlink()
    (tmp_path / "public" / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    write_codec("llasa", tmp_path / "codec")
    checkpoint = read_checkpoint("llasa", Download(tmp_path / "public", tmp_path / "codec"))
    assert checkpoint.licence == "cc-by-nc-4.0"
    write_repository(checkpoint, tmp_path / "out")
    talker = load_file(tmp_path / "out" / "talker" / "1" / "model.safetensors")
    assert {value.dtype for value in talker.values()} == {torch.bfloat16}
    whole = narrow.state_dict()["model.embed_tokens.weight"]
    end = public.tokenizer.convert_tokens_to_ids("<|SPEECH_GENERATION_END|>")
    first = public.tokenizer.convert_tokens_to_ids("<|s_0|>")
    torch.testing.assert_close(
        talker["model.embed_tokens.weight"], whole[[*range(first, first + CODES), end]]
    )
    assert "lm_head.weight" not in talker  # the tables are tied
    table = load_file(tmp_path / "out" / "encoder" / "1" / "encoder.safetensors")
    torch.testing.assert_close(table["embed_tokens.weight"], whole, rtol=0, atol=0)


def test_modules_of_llasa_plus_become_an_mtp_draft(tmp_path: Path) -> None:
    stored = write_llasa_plus(tmp_path / "public")
    write_codec("llasa", tmp_path / "codec")
    checkpoint = read_checkpoint("llasa", Download(tmp_path / "public", tmp_path / "codec"))
    write_repository(checkpoint, tmp_path / "out")
    talker = tmp_path / "out" / "talker" / "1"
    config = json.loads((talker / "drafts" / "mtp" / "config.json").read_text())
    assert (config["kind"], config["num_modules"], config["sees_tokens"]) == ("mtp", 2, False)
    assert (config["has_norm"], config["sees_prompt"]) == (False, True)
    assert config["target"] == sha256(talker / "model.safetensors")
    drafts = load_file(talker / "drafts" / "mtp" / "model.safetensors")
    layer = "decoder.model.layers.0"
    for ours, theirs in {
        "cascade.0.hidden_norm.weight": "mtp_1_local_RMSNorm.weight",
        "cascade.1.projector.bias": "mtp_2_proj.bias",
        f"cascade.1.{layer}.self_attn.k_proj.weight": "mtp_2_block.self_attn.k_proj.weight",
        f"cascade.0.{layer}.post_attention_layernorm.weight": "mtp_1_block.post_attention_layernorm.weight",
    }.items():
        torch.testing.assert_close(drafts[ours], stored[theirs])
    assert len(drafts) == 2 * (9 + 3)
    assert not [name for name in drafts if name.endswith("model.norm.weight")]
    assert read_sampling(talker) == SamplingDefaults(temperature=1.0, top_p=1.0, top_k=50)
    assert read_offer(talker).drafters["mtp"].nodes == (2, 3)
    assert load_drafter(talker / "drafts" / "mtp", talker, DraftPool(2, 40)).sees_prompt


@pytest.mark.parametrize(("is_in_one_file", "blocks"), [(False, 1), (True, 1), (False, 2)])
def test_medusas_heads_become_blind_heads(is_in_one_file: bool, blocks: int, tmp_path: Path) -> None:
    public = write_llasa(tmp_path / "public")
    state = medusa_heads(public, blocks)
    if is_in_one_file:
        whole = load_file(tmp_path / "public" / "model.safetensors")
        whole |= {f"medusa_head.{name}": value for name, value in state.items()}
        save_file(whole, tmp_path / "public" / "model.safetensors", metadata={"format": "pt"})
    else:
        torch.save(state, tmp_path / "public" / "medusa_lm_head.pt")
    write_codec("llasa", tmp_path / "codec")
    checkpoint = read_checkpoint("llasa", Download(tmp_path / "public", tmp_path / "codec"))
    write_repository(checkpoint, tmp_path / "out")
    folder = tmp_path / "out" / "talker" / "1" / "drafts" / "heads"
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("target") == sha256(tmp_path / "out" / "talker" / "1" / "model.safetensors")
    assert config == {
        "kind": "heads", "num_heads": 3, "width": 64, "block_size": None, "num_blocks": blocks,
        "vocab_size": CODES + 1, "sees_tokens": False,
    }  # fmt: skip
    speech = checkpoint.encoder
    end = public.tokenizer.convert_tokens_to_ids("<|SPEECH_GENERATION_END|>")
    drawn = [*range(speech.first_speech, speech.first_speech + CODES), end]
    expected = {f"linears.{head}.weight": state[f"{head}.{blocks}.weight"][drawn] for head in range(3)}
    for place in range(3 * blocks):
        head, block = divmod(place, blocks)
        for part in ("weight", "bias"):
            expected[f"inward.{place}.{part}"] = state[f"{head}.{block}.linear.{part}"]
    found = load_file(folder / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)
    heads = Draft.load(folder, tmp_path / "out" / "talker" / "1").network
    assert isinstance(heads, DraftHeads) and len(heads) == 3
    trees = CalibratedTrees.read(folder, sha256(folder / "model.safetensors"))
    assert trees.positions == 0  # nothing was counted
    assert trees.within(4).paths == ((0,), (1,), (0, 0))
    assert max(len(path) for path in trees.within(32).paths) == 3
    Manifest.read(folder).verify(folder)


@pytest.fixture
def folders(tmp_path: Path) -> Download:
    write_llasa(tmp_path / "public")
    write_codec("llasa", tmp_path / "codec")
    return Download(tmp_path / "public", tmp_path / "codec")


def refused(family: str, download: Download, sentence: str) -> None:
    with pytest.raises(TalkaheadError, match=sentence):
        read_checkpoint(family, download)


def test_a_folder_of_another_family_is_refused_by_name(folders: Download) -> None:
    refused("neutts", folders, r"tokenizer\.json is of llasa, not of neutts, whose .*<\|speech_0\|>")
    refused(
        "phonemic", folders, "family: 'phonemic' has no public checkpoints; allowed: llasa, neutts, orpheus"
    )
    refused("bark", folders, "family: 'bark'")


def test_a_tokenizer_without_speech_is_refused(folders: Download) -> None:
    path = folders.folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<|SPEECH_GENERATION_END|>", "<|other|>"))
    refused("llasa", folders, r"tokenizer\.json is of no family that is known, not of llasa")


def test_codes_out_of_order_are_refused(folders: Download) -> None:
    path = folders.folder / "tokenizer.json"
    text = path.read_text().replace("<|s_4|>", "<|s_|>").replace("<|s_5|>", "<|s_4|>")
    path.write_text(text.replace("<|s_|>", "<|s_5|>"))
    refused("llasa", folders, r"<\|s_4\|> has id 689; allowed: 688")


def test_tables_without_rows_for_speech_are_refused(folders: Download) -> None:
    shutil.copy(folders.folder / "tokenizer.json", folders.folder / "kept")
    other = write_llasa(folders.folder)
    other.model.resize_token_embeddings(700)
    other.model.save_pretrained(folders.folder)
    refused("llasa", folders, r"ids up to 715, .*vocab_size of 700 .*allowed: at least 716")


def test_a_missing_shard_is_named(folders: Download) -> None:
    (folders.folder / "model.safetensors").unlink()
    refused("llasa", folders, "has no weights")


def test_a_tensor_of_a_wrong_shape_is_named(folders: Download) -> None:
    path = folders.folder / "model.safetensors"
    state = load_file(path)
    state["model.layers.1.mlp.up_proj.weight"] = state["model.layers.1.mlp.up_proj.weight"][1:].clone()
    save_file(state, path, metadata={"format": "pt"})
    refused("llasa", folders, r"model\.layers\.1\.mlp\.up_proj\.weight is \[95, 64\]")


def test_modules_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    state = write_llasa_plus(tmp_path / "public")
    del state["mtp_2_proj.bias"]
    save_file(state, tmp_path / "public" / "model.safetensors", metadata={"format": "pt"})
    refused(
        "llasa",
        Download(tmp_path / "public", tmp_path),
        r"cascade\.1\.projector\.bias of none; allowed: \[64\]",
    )


def test_medusas_heads_of_another_talker_are_refused(folders: Download) -> None:
    torch.save({"0.1.weight": torch.zeros(5, 64)}, folders.folder / "medusa_lm_head.pt")
    refused("llasa", folders, r"Medusa's heads have inward\.0\.bias of none")


def test_more_positions_than_the_model_has_are_refused(folders: Download) -> None:
    asked = Download(folders.folder, folders.codec, positions=2049)
    refused("llasa", asked, r"--positions: 2049 is not accepted; allowed: 1 to 2048, .*config\.json")


def test_phonemes_are_neutts_own_affair(folders: Download, tmp_path: Path) -> None:
    refused("llasa", Download(folders.folder, folders.codec, phonemes="own"), "--phonemes: 'own'")
    write_neutts(tmp_path / "neutts")
    refused("neutts", Download(tmp_path / "neutts", tmp_path, phonemes="flite"), "allowed: own, espeak")


def test_a_folder_without_a_chat_template_is_refused(folders: Download) -> None:
    (folders.folder / "chat_template.jinja").unlink()
    refused("llasa", folders, "has no chat template")


@pytest.mark.parametrize(
    ("voice", "sentence"),
    [
        ({"text": "Hello."}, r"jo\.json is no voice \(KeyError"),
        ({"text": "Hello.", "codes": []}, "codes; allowed: at least one"),
        ({"text": "Hello.", "codes": [3, 32]}, "each from 0 to 31"),
        ({"text": "Hello.", "codes": [3] * 700}, "700 codes; allowed: 615 together"),
    ],
)
def test_a_stored_voice_that_cannot_be_used_is_named(
    voice: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    write_neutts(tmp_path)
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "jo.json").write_text(json.dumps(voice))
    refused("neutts", Download(tmp_path, tmp_path), sentence)


def test_nothing_half_written_is_left(folders: Download, tmp_path: Path) -> None:
    checkpoint: ImportedCheckpoint = read_checkpoint("llasa", folders)
    (folders.codec / "model.safetensors").unlink()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ArtifactMismatch, match=r"model\.safetensors is missing"):
        write_repository(checkpoint, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_codec_of_other_codebooks_is_refused(folders: Download, tmp_path: Path) -> None:
    write_codec("orpheus", tmp_path / "snac")
    checkpoint = read_checkpoint("llasa", folders)
    from fsq_folder import write_folder
    from transformers import Xcodec2Model

    write_folder(folders.codec, Xcodec2Model, quantization_levels=[4, 4])
    with pytest.raises(ArtifactMismatch, match=r"codebooks are \[16\]; allowed: \[32\]"):
        write_repository(checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(ArtifactMismatch, match="is there already"), new_repository(tmp_path):
        raise AssertionError("never reached")
