"""The kernels' sources, each after those that it includes."""

KERNEL_SOURCES = ["source/%s.h" % name for name in [
    "kernel_language",
    "elementwise",
    "activation",
    "rotary",
    "row_sums",
    "normalization",
    "embedding",
    "group_sums",
    "cross_entropy",
    "tile_product",
    "matmul",
    "attention",
    "optimizer",  # last: what follows it in one text rounds every operation
]]
