#pragma once

// The common subset of OpenCL C 1.2 and CUDA C++ in which the kernels of this folder are written.
//
// A kernel is KERNEL name(SLICE(const float, x), ..., LONG elements) { OPEN(const float, x) ... }: OpenCL
// passes a slice as a buffer and a byte offset, which OPEN joins; CUDA passes a pointer. Absent slices are
// null. LaunchShape::group_size is always 256. Sizes and offsets are LONG (64 bits), figures within a group
// int. Code written once has the same order of sums everywhere; AdamW's has the same bits (optimizer.h).
#ifdef __CUDACC__

#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define INLINE static __device__ __forceinline__
#define GLOBAL                           // of pointers to the device's memory
#define LOCAL                            // of pointers to the memory that a group shares
#define SHARED __shared__ __align__(16)  // declares such memory, at the top of a kernel
#define LONG long long
#define RUN_ALIGNMENT(element_size) __align__(RUN_ELEMENTS*(element_size))
// Whether rows of `columns` elements that begin at x are runs (RUN_ELEMENTS) without a rest, each at a multiple of its
// size.
#define ARE_RUNS(x, columns) \
  ((columns) % RUN_ELEMENTS == 0 && (size_t)(x) % (RUN_ELEMENTS * sizeof(*(x))) == 0)
#define SLICE(type, name) type* name
#define OPEN(type, name)

#define LOCAL_ID ((int)threadIdx.x)
#define GROUP_ID_0 ((LONG)blockIdx.x)
#define GROUP_ID_1 ((LONG)blockIdx.y)
#define GROUP_ID_2 ((LONG)blockIdx.z)
#define GROUPS_0 ((LONG)gridDim.x)
#define BARRIER() __syncthreads()

#define EXP(x) expf(x)
#define RECIPROCAL(x) __fdividef(1.0f, x)  // within a bit, of what is below 2^126
#define LOG(x) logf(x)
#define SQRT(x) sqrtf(x)
#define MAX(x, y) fmaxf(x, y)
#define MIN(x, y) fminf(x, y)
#define NEGATIVE_INFINITY (-__int_as_float(0x7f800000))
#define BITS_OF(x) __float_as_uint(x)
#define FLOAT_OF(bits) __uint_as_float(bits)

// One rounding each, never fused.
#define EXACT_MULTIPLY(x, y) __fmul_rn(x, y)
#define EXACT_ADD(x, y) __fadd_rn(x, y)
#define EXACT_DIVIDE(x, y) __fdiv_rn(x, y)
#define EXACT_SQRT(x) __fsqrt_rn(x)
#define NOTHING_IS_FUSED

#define HAS_F64
#define UNROLL _Pragma("unroll")      // what is indexed stays in registers
#define UNROLL_4 _Pragma("unroll 4")  // loads of several turns are under way together
#define UNROLL_8 _Pragma("unroll 8")

#else  // OpenCL C

#define KERNEL __kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
#define INLINE static inline
#define GLOBAL __global
#define LOCAL __local
#define SHARED __local __attribute__((aligned(16)))
#define LONG long
#define RUN_ALIGNMENT(element_size)  // vectors need no more than their elements
// Barriers would be inside of branches: with PoCL 3.1, groups that run at the same time then lose what they share.
#define ARE_RUNS(x, columns) 0
#define SLICE(type, name) __global type *name##_buffer, long name##_offset_bytes
#define OPEN(type, name) \
  __global type* name = (__global type*)((__global const char*)name##_buffer + name##_offset_bytes);

#define LOCAL_ID ((int)get_local_id(0))
#define GROUP_ID_0 ((LONG)get_group_id(0))
#define GROUP_ID_1 ((LONG)get_group_id(1))
#define GROUP_ID_2 ((LONG)get_group_id(2))
#define GROUPS_0 ((LONG)get_num_groups(0))
// A group's members meet here; what they wrote to shared and to global memory before is seen by all of them
// after.
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

#define EXP(x) exp(x)
#define RECIPROCAL(x) (1.0f / (x))
#define LOG(x) log(x)
#define SQRT(x) sqrt(x)
#define MAX(x, y) fmax(x, y)
#define MIN(x, y) fmin(x, y)
#define NEGATIVE_INFINITY (-INFINITY)
#define BITS_OF(x) as_uint(x)
#define FLOAT_OF(bits) as_float(bits)

// After NOTHING_IS_FUSED, and with the build option -cl-fp32-correctly-rounded-divide-sqrt.
#define EXACT_MULTIPLY(x, y) ((x) * (y))
#define EXACT_ADD(x, y) ((x) + (y))
#define EXACT_DIVIDE(x, y) ((x) / (y))
#define EXACT_SQRT(x) sqrt(x)
#define NOTHING_IS_FUSED _Pragma("OPENCL FP_CONTRACT OFF")

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define HAS_F64
#endif
#define UNROLL
#define UNROLL_4
#define UNROLL_8

#endif

#define GROUP_SIZE 256

// Over elements: a group takes GROUP_ELEMENTS of them, a work-item every GROUP_SIZE-th, so that neighbours
// touch neighbours and several loads are under way at a time, without any demand on alignment.
#define GROUP_ELEMENTS 1024
#define EACH_ELEMENT(i, group, elements)                                                                    \
  for (LONG i = (group)*GROUP_ELEMENTS + LOCAL_ID, end_of_##i = ((group) + 1) * GROUP_ELEMENTS < (elements) \
                                                                    ? ((group) + 1) * GROUP_ELEMENTS        \
                                                                    : (elements);                           \
       i < end_of_##i; i += GROUP_SIZE)

// Or it takes neighbours, which are read and written in one access where they lie so (typed/neighbours.h): runs of
// RUN_ELEMENTS, of which a group has one a work-item in each turn.
#define RUN_ELEMENTS 4
#define FIRST_OF_RUN(turn) ((turn)*GROUP_ELEMENTS + LOCAL_ID * RUN_ELEMENTS)
#define EACH_OF_RUN(k) UNROLL for (int k = 0; k < RUN_ELEMENTS; ++k)
// Over elements alone, a group takes several turns, whose loads are under way together.
#define ELEMENT_TURNS 2
#define EACH_ELEMENT_TURN(t) UNROLL for (int t = 0; t < ELEMENT_TURNS; ++t)
#define FIRST_OF_TURN(t) FIRST_OF_RUN(GROUP_ID_0* ELEMENT_TURNS + (t))
