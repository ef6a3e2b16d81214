# A cross-compiler from PyPI: Clang with the start files and symbol versions of the glibc that the target names. Its
# archiver is used as well, since that of the system may not know the target's object files.
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR $ENV{WHEEL_TARGET})
set(CMAKE_CXX_COMPILER $ENV{WHEEL_ZIG} c++)
set(CMAKE_CXX_COMPILER_TARGET $ENV{WHEEL_TARGET})
set(CMAKE_CXX_ARCHIVE_CREATE "$ENV{WHEEL_ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "$ENV{WHEEL_ZIG} ranlib <TARGET>")
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON) # its driver does not find them
set(CMAKE_MODULE_LINKER_FLAGS_INIT "$ENV{WHEEL_UNWINDER} -s")
set(CMAKE_EXE_LINKER_FLAGS_INIT "$ENV{WHEEL_UNWINDER} -s")
