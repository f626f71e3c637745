// Every kernel of this backend: those that OpenCL shares.
#include "kernels/portable/kernel_text.h"
