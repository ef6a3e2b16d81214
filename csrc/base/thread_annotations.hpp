// Which lock protects what, for clang's analysis of thread safety, which `make lint` runs. For
// other compilers the macros are empty. https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#if defined(__clang__)
#define SHMTENSOR_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SHMTENSOR_THREAD_ATTRIBUTE(x)
#endif

/// Of a class: its objects are locks.
#define CAPABILITY(name) SHMTENSOR_THREAD_ATTRIBUTE(capability(name))
/// Of a class: its objects hold a lock, or release one, as long as they live.
#define SCOPED_CAPABILITY SHMTENSOR_THREAD_ATTRIBUTE(scoped_lockable)

/// Of a variable: it, or what it points to, is accessed only by a thread that holds the lock.
#define GUARDED_BY(lock) SHMTENSOR_THREAD_ATTRIBUTE(guarded_by(lock))
#define PT_GUARDED_BY(lock) SHMTENSOR_THREAD_ATTRIBUTE(pt_guarded_by(lock))

/// Of a function: it is called with the lock held; it acquires or releases the lock.
#define REQUIRES(...) SHMTENSOR_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) SHMTENSOR_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) SHMTENSOR_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) SHMTENSOR_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

/// Of a function that the analysis cannot follow. Each use needs a reason.
#define NO_THREAD_SAFETY_ANALYSIS SHMTENSOR_THREAD_ATTRIBUTE(no_thread_safety_analysis)
