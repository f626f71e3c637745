"""One binary a device: a CPU variant limits the instruction set of its whole process."""

def device_under_test(name, device, backends = "//kernels:backends"):
    """device_under_test.h for `device` of `backends`."""
    native.cc_library(
        name = name,
        testonly = True,
        srcs = ["device_under_test.cc"],
        hdrs = ["device_under_test.h"],
        local_defines = ["MEDLEY_DEVICE_UNDER_TEST='\"%s\"'" % device],
        deps = [
            backends,
            "//kernels:backend_list",
            "//runtime/device:device",
            "//runtime/device:device_name",
            "//tests:skipped",
            "//third_party:catch_main",
        ],
    )

def ops_conformance_test(name, device, backends = "//kernels:backends", size = "medium"):
    """The whole suite on `device` of `backends`; counts as skipped where the machine lacks it."""
    device_under_test(name + "_device", device, backends)
    native.cc_test(
        name = name,
        size = size,
        linkstatic = True,
        deps = [":suites", ":" + name + "_device", "//third_party:catch_main"],
    )
