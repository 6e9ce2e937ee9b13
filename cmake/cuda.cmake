# CUDA is found by its headers alone: every CUDA library is opened at run time, so one binary runs with and
# without a GPU, and none of them is needed to build.
find_path(CUDA_INCLUDE cuda.h
  HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include /usr/local/cuda/include
  DOC "The folder of cuda.h")
set(found OFF)
if(CUDA_INCLUDE)
  set(found ON)
endif()
option(MONOGRAPH_CUDA "Build what runs on NVIDIA GPUs (needs the CUDA headers)" ${found})
if(MONOGRAPH_CUDA AND NOT CUDA_INCLUDE)
  message(FATAL_ERROR "MONOGRAPH_CUDA is on, but there is no cuda.h: set CUDA_HOME or -DCUDA_INCLUDE=FOLDER")
endif()
find_path(NCCL_INCLUDE nccl.h
  HINTS ${CUDA_INCLUDE}
  DOC "The folder of nccl.h")
if(MONOGRAPH_CUDA)
  message(STATUS "CUDA headers: ${CUDA_INCLUDE}; NCCL header: ${NCCL_INCLUDE}")
else()
  message(STATUS "CUDA: off (headers: ${CUDA_INCLUDE}): built without what runs on NVIDIA GPUs")
endif()
