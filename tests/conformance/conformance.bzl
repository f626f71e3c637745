"""One binary a device: a CPU variant limits the instruction set of its whole process."""

def ops_conformance_test(name, device, backends = "//kernels:backends"):
    """The whole suite on `device` of `backends`; passes with a notice where the machine lacks it."""
    native.cc_library(
        name = name + "_device",
        testonly = True,
        srcs = ["device_under_test.cc"],
        hdrs = ["device_under_test.h"],
        local_defines = ["MEDLEY_DEVICE_UNDER_TEST='\"%s\"'" % device],
        deps = [
            backends,
            "//kernels:backend_list",
            "//runtime/device:device",
            "//runtime/device:device_name",
            "//third_party:catch_main",
        ],
    )
    native.cc_test(
        name = name,
        size = "small",
        linkstatic = True,
        deps = [":suites", ":" + name + "_device", "//third_party:catch_main"],
    )
