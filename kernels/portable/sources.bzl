"""The kernels' sources, each after those that it needs."""

def _files(names):
    return ["source/%s.h" % name for name in names]

_FIRST = _files(["kernel_language", "narrow", "elementwise", "activation", "row_sums", "group_sums", "cross_entropy"])

# Once for each type of activations; the first of them says which.
_TYPED = _files(["typed/" + name for name in ["element_type", "neighbours", "elementwise", "activation", "rotary", "normalization", "embedding", "head_gradient"]])

_LAST = _files([
    "tile_product",
    "matmul",
    "attention",
    "optimizer",  # last: what follows it in one text rounds every operation
])

KERNEL_SOURCES = _FIRST + _TYPED + _LAST

# In the order of the one text that they make.
KERNEL_TEXT = _FIRST + 3 * _TYPED + _LAST
