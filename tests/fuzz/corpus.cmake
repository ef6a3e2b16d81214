# Unpacks the inputs that fuzzing found, one archive per target, into seeds/ of the build folder.
set(SHMTENSOR_CORPUS ${CMAKE_BINARY_DIR}/seeds)
file(REMOVE_RECURSE ${SHMTENSOR_CORPUS})
foreach(target IN ITEMS tables memory member manager channel)
  set(archive ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${target}.tar.gz)
  file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${SHMTENSOR_CORPUS})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archive})
endforeach()
