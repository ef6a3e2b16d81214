// Linked in place of libgcc_s.so.1, which the target's machine has. The unwinder must be the process's own:
// pthread_exit of glibc unwinds with that of libgcc_s.so.1, and passes its context to the personality routine of each
// frame. A routine that reads it by the functions of another unwinder, as Zig would link one statically, crashes.
#define EXPORT(name) void name(void) {}

EXPORT(_Unwind_Backtrace)
EXPORT(_Unwind_DeleteException)
EXPORT(_Unwind_GetIP)
EXPORT(_Unwind_GetIPInfo)
EXPORT(_Unwind_GetLanguageSpecificData)
EXPORT(_Unwind_GetRegionStart)
EXPORT(_Unwind_RaiseException)
EXPORT(_Unwind_Resume)
EXPORT(_Unwind_SetGR)
EXPORT(_Unwind_SetIP)
