# Compiler flags shared by every target of the project.
add_library(coxi_flags INTERFACE)
target_compile_definitions(coxi_flags INTERFACE _GNU_SOURCE)
target_include_directories(coxi_flags INTERFACE ${PROJECT_SOURCE_DIR}
                                                ${PROJECT_SOURCE_DIR}/include)
target_compile_options(
    coxi_flags
    INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wswitch-enum -Wconversion
              -fno-omit-frame-pointer
              $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
              $<$<BOOL:${COX_WERROR}>:-Werror>)
target_link_libraries(coxi_flags INTERFACE Threads::Threads)

if(COX_SANITIZE STREQUAL "address")
    set(coxi_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(COX_SANITIZE STREQUAL "thread")
    set(coxi_sanitizers -fsanitize=thread)
elseif(COX_SANITIZE)
    message(FATAL_ERROR "COX_SANITIZE is '${COX_SANITIZE}': use address, thread or nothing")
endif()
target_compile_options(coxi_flags INTERFACE ${coxi_sanitizers})
target_link_options(coxi_flags INTERFACE ${coxi_sanitizers})
