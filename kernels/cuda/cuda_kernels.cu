// Every kernel of this backend: those that OpenCL shares.
#include "kernels/portable/source/activation.h"
#include "kernels/portable/source/attention.h"
#include "kernels/portable/source/cross_entropy.h"
#include "kernels/portable/source/elementwise.h"
#include "kernels/portable/source/embedding.h"
#include "kernels/portable/source/group_sums.h"
#include "kernels/portable/source/matmul.h"
#include "kernels/portable/source/normalization.h"
#include "kernels/portable/source/rotary.h"
#include "kernels/portable/source/row_sums.h"
#include "kernels/portable/source/optimizer.h"  // last: what follows it rounds every operation
