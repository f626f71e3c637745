"""Fuzz targets: ordinary short tests with fuzz_main; programs of libFuzzer with --config=fuzz."""

def fuzz_target(name, deps):
    native.cc_test(
        name = name,
        size = "small",
        srcs = [name + ".cc"],
        deps = [":fuzz_target"] + deps + select({
            ":with_libfuzzer": [],
            "//conditions:default": [":fuzz_main"],
        }),
    )
