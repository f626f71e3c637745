// The text of kernels is put together from the files of sources.bzl, those of this folder once for each type that
// activations are stored in: f32, then bf16, then f16. A tensor of that type is a SLICE of STORED; its elements are
// read by GET and written by PUT, and computed with in f32. TYPED names the kernel of the type.
#ifndef STORED

#define STORED float
#define GET(x, i) ((x)[i])
#define PUT(x, i, value) ((x)[i] = (value))
#define TYPED(name) name

#elif !defined(TYPES_OF_16_BITS)

#define TYPES_OF_16_BITS
#undef STORED
#undef GET
#undef PUT
#undef TYPED
#define STORED unsigned short
#define GET(x, i) WidenedBf16((x)[i])
#define PUT(x, i, value) ((x)[i] = RoundedToBf16(value))
#define TYPED(name) name##_bf16

#else

#undef GET
#undef PUT
#undef TYPED
#define GET(x, i) WidenedF16((x)[i])
#define PUT(x, i, value) ((x)[i] = RoundedToF16(value))
#define TYPED(name) name##_f16

#endif
