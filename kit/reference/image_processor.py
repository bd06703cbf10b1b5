"""The image processor that a Kimi-K2.5 target must bring along for vLLM before 0.25, which has none of its own.

vLLM loads it as remote code (`--trust-remote-code`) through `auto_map` of preprocessor_config.json, and calls it once
at start to size the multimodal cache, even for a deployment that only ever sees text.
"""

from __future__ import annotations

from packaging.version import Version

FILE = "reference_image_processor.py"
AUTO_MAP = {"AutoImageProcessor": "reference_image_processor.ReferenceImageProcessor"}
BUILT_IN_SINCE = Version("0.25")

SOURCE = '''\
"""Image processor of the reference Kimi-K2.5 target: every image is 4 x 4 grey patches, 4 tokens after merging."""

import torch
from transformers.image_processing_utils import BaseImageProcessor

PATCHES_A_SIDE = 4
TOKENS = 4


class ReferenceImageProcessor(BaseImageProcessor):
    model_input_names = ["pixel_values", "grid_thws"]

    def __init__(self, media_proc_cfg=None, **kwargs):
        super().__init__(**kwargs)
        self.media_proc_cfg = media_proc_cfg
        self.num_frames_per_chunk = 4

    def media_tokens_calculator(self, media):
        return TOKENS

    def preprocess(self, medias, return_tensors=None, **kwargs):
        patch = self.media_proc_cfg["patch_size"]
        grid = [1, PATCHES_A_SIDE, PATCHES_A_SIDE]
        return {
            "pixel_values": torch.zeros(len(medias) * PATCHES_A_SIDE**2, 3, patch, patch),
            "grid_thws": torch.tensor([grid] * len(medias)),
        }

    def split_video_chunks(self, video):
        raise NotImplementedError("the reference target takes no video")
'''


def needed(vllm: str | None) -> bool:
    """Whether a vLLM of this version needs the file; None means the version that the kit embeds, which does not."""
    return vllm is not None and Version(vllm) < BUILT_IN_SINCE
