"""Libraries and tests by their names."""

load("//third_party/precompiled:precompiled.bzl", "with_precompiled")

def medley_library(name, srcs = None, hdrs = None, **kwargs):
    """A cc_library of NAME.cc and NAME.h, as far as they are there, unless `srcs` or `hdrs` say otherwise."""
    srcs = native.glob([name + ".cc"]) if srcs == None else srcs
    hdrs = native.glob([name + ".h"]) if hdrs == None else hdrs
    if not srcs and not hdrs:
        fail("%s has neither %s.cc nor %s.h" % (name, name, name))
    native.cc_library(name = name, srcs = srcs, hdrs = hdrs, **with_precompiled("library", **kwargs))

def medley_test(name, srcs = None, size = "small", deps = [], **kwargs):
    """A cc_test of NAME.cc, with the main() of every test."""
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"] if srcs == None else srcs,
        **with_precompiled("test", deps = deps + ["//third_party:catch_main"], **kwargs)
    )
