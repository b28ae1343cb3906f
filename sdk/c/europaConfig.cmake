# The target `europa::europa` of an installed SDK: PREFIX/share/cmake/europa lies below its prefix.
if(NOT TARGET europa::europa)
  get_filename_component(europa_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(europa::europa INTERFACE IMPORTED)
  set_target_properties(europa::europa PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${europa_prefix}/include/europa"
    INTERFACE_COMPILE_DEFINITIONS _GNU_SOURCE
    INTERFACE_COMPILE_FEATURES c_std_11)
endif()
