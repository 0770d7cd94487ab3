"""Further networks of transformers and of timm, one of each family: tiny configurations, random weights."""
import timm
import torch
import transformers
from torch import nn

from networks import Network, ids, image, make, noise

BOTH = {"x": {0: "batch", 1: "sequence"}, "y": {0: "batch", 1: "sequence"}}
BATCH = {"x": {0: "batch"}}
TOKENS, MASK = ids(50, 1, 12) + 2, torch.tensor([[1] * 9 + [0] * 3])

BERT = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=32)
LLAMA = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, head_dim=8, pad_token_id=0)
TWO_SIDES = dict(vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                 decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32,
                 pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2)
SOUND = dict(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
             conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=16,
             num_conv_pos_embedding_groups=4, num_feat_extract_layers=2)
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
           patch_size=8)
STAGES = dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
RESNET = dict(embedding_size=8, hidden_sizes=[8, 16, 32, 32], depths=[1, 1, 1, 1], out_features=["stage4"])
SWIN = dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4,
            out_features=["stage1", "stage2", "stage3", "stage4"])


class Named(nn.Module):
    """Calls a network of transformers by the names of its inputs, and returns the results that `chosen` names."""

    def __init__(self, network, names, chosen, fixed):
        super().__init__()
        self.network, self.names, self.chosen, self.fixed = network, names, chosen, fixed

    def forward(self, x, y=None, z=None):
        made = self.network(**dict(zip(self.names, (x, y, z))), **self.fixed)
        return tuple(made[each] for each in self.chosen) if isinstance(self.chosen, tuple) else made[self.chosen]


def family(name, model, sizes, names, inputs, chosen=0, fixed=None, attention="eager", opset=14, **options):
    """Returns a Network. model: its class's name; sizes: its configuration's arguments, or a function that makes it."""

    def build():
        kind = getattr(transformers, model)
        config = sizes() if callable(sizes) else kind.config_class(**sizes)
        if attention:
            config._attn_implementation = attention
        return Named(kind(config), names, chosen, fixed or {})

    return Network(name, build, inputs, opset=opset, **options)


def encoder(name, model, sizes=None, **options):
    return family(name, model, BERT | (sizes or {}), ("input_ids", "attention_mask"), [TOKENS, MASK], **options)


def decoder(name, model, sizes, **options):
    return family(name, model, sizes, ("input_ids", "attention_mask"), [TOKENS, MASK], "logits",
                  fixed={"use_cache": False}, **options)


def translator(name, model, sizes, **options):
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    return family(name, model, sizes, names, [TOKENS, MASK, TOKENS[:, :7]], fixed={"use_cache": False}, **options)


def sound(name, model, **sizes):
    return family(name, model, SOUND | sizes, ("input_values",), [noise(1, 400)])


def seeing(name, model, sizes, size=32, chosen=0, **options):
    return family(name, model, sizes, ("pixel_values",), [image(size)], chosen, opset=16, **options)


def detr():
    parts = {f"{side}_{part}": size for side in ("encoder", "decoder")
             for part, size in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 64))}
    return transformers.DetrConfig(backbone_config=transformers.ResNetConfig(**RESNET), use_timm_backbone=False,
                                   use_pretrained_backbone=False, backbone=None, d_model=32, num_queries=5, **parts)


def mask2former():
    sizes = dict(feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=64, encoder_layers=1,
                 decoder_layers=2, num_attention_heads=4, dim_feedforward=64, num_queries=5)
    return transformers.Mask2FormerConfig(backbone_config=transformers.SwinConfig(**SWIN), **sizes)


def of_timm(name, model, size=64, **options):
    return Network(name, lambda: timm.create_model(model, num_classes=10), [image(size)], opset=14, **options)


NETWORKS = [
    encoder("albert", "AlbertModel", {"embedding_size": 16}, open_axes=BOTH),
    encoder("electra", "ElectraForTokenClassification", {"embedding_size": 16}),
    encoder("deberta_v2", "DebertaV2Model", dict(relative_attention=True, pos_att_type=["p2c", "c2p"],
                                                 position_buckets=8), open_axes=BOTH),
    encoder("mpnet", "MPNetModel", half=True),
    encoder("modern_bert", "ModernBertModel", dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
                                                   sep_token_id=2, global_attn_every_n_layers=2, local_attention=4)),
    encoder("roformer", "RoFormerModel", {"embedding_size": 32}),
    encoder("mobile_bert", "MobileBertModel", dict(embedding_size=32, intra_bottleneck_size=32)),
    decoder("mistral", "MistralForCausalLM", LLAMA | {"sliding_window": 4}),
    decoder("qwen3", "Qwen3ForCausalLM", LLAMA, half=True, open_axes=BOTH),
    decoder("gemma2", "Gemma2ForCausalLM", LLAMA | {"sliding_window": 4}),
    decoder("phi3", "Phi3ForCausalLM", LLAMA),
    decoder("gpt_neox", "GPTNeoXForCausalLM", BERT, open_axes=BOTH),
    decoder("bloom", "BloomForCausalLM", dict(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)),
    decoder("falcon", "FalconForCausalLM", dict(vocab_size=64, hidden_size=32, num_hidden_layers=2,
                                                num_attention_heads=4)),
    decoder("opt", "OPTForCausalLM", dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                          ffn_dim=64, max_position_embeddings=32, word_embed_proj_dim=32)),
    family("mamba", "MambaForCausalLM", dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4,
                                             time_step_rank=2), ("input_ids",), [TOKENS], "logits",
           fixed={"use_cache": False}, attention=None),
    translator("bart", "BartForConditionalGeneration", TWO_SIDES, half=True),
    translator("marian", "MarianMTModel", TWO_SIDES),
    translator("t5", "T5ForConditionalGeneration", dict(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2,
                                                        num_heads=4, decoder_start_token_id=0)),
    sound("wav2vec2", "Wav2Vec2ForCTC"),
    sound("wavlm", "WavLMModel"),
    seeing("beit", "BeitForImageClassification", VIT | {"use_relative_position_bias": True}),
    seeing("dinov2", "Dinov2Model", VIT),
    seeing("segformer", "SegformerForSemanticSegmentation", STAGES | {"decoder_hidden_size": 16}, 64, half=True),
    seeing("mobile_vit", "MobileViTForSemanticSegmentation",
           dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 16, 16, 16, 16, 16, 32]), 64),
    seeing("detr", "DetrForObjectDetection", detr, 64, ("logits", "pred_boxes")),
    seeing("mask2former", "Mask2FormerForUniversalSegmentation", mask2former, 64,
           ("class_queries_logits", "masks_queries_logits")),
    of_timm("nfnet", "test_nfnet"),
    of_timm("convnext_v2", "test_convnext2", half=True, open_axes=BATCH),
    of_timm("byob", "test_byobnet"),
    of_timm("mambaout", "test_mambaout"),
    of_timm("repvit", "repvit_m0_9"),
    of_timm("ghostnet", "ghostnet_050"),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)
