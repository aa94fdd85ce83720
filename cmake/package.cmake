# What other projects find an installed Coxswain by: coxswain.pc and a CMake package.
# Both name places relative to themselves, because an installation may be moved, or made with
# another --prefix.
include(CMakePackageConfigHelpers)

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Coxswain)

set(from ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir})
file(RELATIVE_PATH prefix_from_pc ${from} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH libdir_from_pc ${from} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH includedir_from_pc ${from} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/coxswain.pc.in coxswain.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/coxswain.pc DESTINATION ${pkgconfig_dir})

# What step modules need: the headers. They link nothing.
add_library(coxswain-step INTERFACE)
set_target_properties(coxswain-step PROPERTIES EXPORT_NAME step)
target_include_directories(
    coxswain-step INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS coxswain-step EXPORT coxswain)
install(
    EXPORT coxswain
    NAMESPACE coxswain::
    FILE CoxswainTargets.cmake
    DESTINATION ${package_dir})
configure_package_config_file(
    cmake/CoxswainConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/CoxswainConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/CoxswainConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/CoxswainConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/CoxswainConfigVersion.cmake
        DESTINATION ${package_dir})
