"""CPU shim for running SGLang without CUDA.  Put this folder on PYTHONPATH.

1. PyPI's torchvision is linked against CUDA libs, so its C++ ops do not load
   beside the CPU build of torch and its import dies on the un-guarded
   register_fake("torchvision::nms").  Declare the two op schemas first.
"""

import sys


class _BeforeTorchvision:
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            lib = torch.library.Library("torchvision", "DEF")
            lib.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            lib.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            sys._sgl_tv_lib = lib  # keep alive
        return None


sys.meta_path.insert(0, _BeforeTorchvision())
