// How do tiles of rows get into shared memory, and from there to tensor cores?

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// Copies to shared memory, asynchronous on architectures that support it.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_16(u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void end_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT>
__device__ __forceinline__ void await_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#else
__device__ __forceinline__ void copy_16(u32 to, const void* from) {
    uint4 value = *(const uint4*)from;
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(value.x), "r"(value.y),
                 "r"(value.z), "r"(value.w) : "memory");
}

__device__ __forceinline__ void end_group() {}

template <int LEFT>
__device__ __forceinline__ void await_groups() {}
#endif

// Loads four matrices of eight rows of 16 bytes. Each thread gives the address of one row.
__device__ __forceinline__ void load_matrices(u32 at, u32 (&into)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
                 : "r"(at));
}
