# Installation, relocatable: headers below include/aclgrad (so that "acl/acl.h" is found through the flags of the
# pkg-config file or the CMake package, and never shadows a real toolkit), the libraries, aclgrad.pc, the CMake package;
# and apart, off every default path, the names existing link lines use (lib/aclgrad/compat) and compat headers.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(AG_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/aclgrad)
set(AG_COMPAT_LIB ${CMAKE_INSTALL_LIBDIR}/aclgrad/compat)
set(AG_COMPAT_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/aclgrad-compat)
set(AG_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/aclgrad)

foreach(folder acl aclgrad aclnn aclnnop opdev)
  install(DIRECTORY include/${folder} DESTINATION ${AG_HEADERS} FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY include/compat/ DESTINATION ${AG_COMPAT_HEADERS} OPTIONAL FILES_MATCHING PATTERN "*.h")
install(TARGETS aclgrad_shared aclgrad_static EXPORT aclgradTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${AG_HEADERS} ${AG_HEADERS}/aclnn ${AG_HEADERS}/aclnnop)

# A link line that names these gets libaclgrad: the linker follows the link and records libaclgrad's own SONAME.
file(RELATIVE_PATH AG_UP /${AG_COMPAT_LIB} /${CMAKE_INSTALL_LIBDIR})
foreach(name ascendcl nnopbase opapi opapi_math opapi_transformer)
  set(link ${PROJECT_BINARY_DIR}/compat/lib${name}.so)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/compat)
  file(CREATE_LINK ${AG_UP}libaclgrad.so ${link} SYMBOLIC)
  install(FILES ${link} DESTINATION ${AG_COMPAT_LIB})
endforeach()

file(RELATIVE_PATH AG_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" AG_PREFIX_FROM_PC "${AG_PREFIX_FROM_PC}")
set(AG_PC_PRIVATE "-pthread -lm")
if(ACLGRAD_PTHREADPOOL)
  set(AG_PC_PRIVATE "-lpthreadpool -pthread -lm")
endif()
configure_file(cmake/aclgrad.pc.in aclgrad.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/aclgrad.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set_target_properties(aclgrad_shared PROPERTIES EXPORT_NAME aclgrad)
set_target_properties(aclgrad_static PROPERTIES EXPORT_NAME static)
install(EXPORT aclgradTargets NAMESPACE aclgrad:: DESTINATION ${AG_CMAKE_DIR})
configure_package_config_file(cmake/aclgradConfig.cmake.in aclgradConfig.cmake INSTALL_DESTINATION ${AG_CMAKE_DIR}
                              PATH_VARS AG_COMPAT_HEADERS AG_COMPAT_LIB)
write_basic_package_version_file(aclgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/aclgradConfig.cmake ${PROJECT_BINARY_DIR}/aclgradConfigVersion.cmake
        DESTINATION ${AG_CMAKE_DIR})
