"""The kernels' image: machine code by GPU generation, as an array of bytes in the program."""

load("@local_cuda//:cuda.bzl", "NVCC")

# Of the generations that there is machine code for, and the newest as PTX for those to come.
_TARGETS = [
    "arch=compute_80,code=sm_80",
    "arch=compute_90,code=sm_90",
    "arch=compute_90,code=compute_90",
]

def cuda_kernels(name, src, sources, symbol):
    """A cc_library that defines `const unsigned long long symbol[]`, from `src`, which includes `sources`."""
    targets = " ".join(["-gencode " + target for target in _TARGETS])
    native.genrule(
        name = name + "_image",
        srcs = [src] + sources,
        outs = [name + ".fatbin"],
        cmd = "%s -std=c++17 -O3 -fatbin -Xfatbin -compress-all --threads 2 -I. -I$(BINDIR) %s -o $@ $(location %s)" % (NVCC, targets, src),
    )
    native.genrule(
        name = name + "_embedded",
        srcs = [name + ".fatbin"],
        outs = [name + ".c"],
        cmd = "$$(dirname %s)/bin2c --const --padd 0 --type longlong --name %s $< > $@" % (NVCC, symbol),
    )
    native.cc_library(name = name, srcs = [name + ".c"])
