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
if(COX_FUZZ) # all code counts the branches that inputs reach
    list(APPEND coxi_sanitizers -fsanitize=fuzzer-no-link)
endif()
target_compile_options(coxi_flags INTERFACE ${coxi_sanitizers})
target_link_options(coxi_flags INTERFACE ${coxi_sanitizers})

# Counters lie in files that are mapped (%c), so those of a process that is killed count, too.
# All processes of a program share its file (%m).
if(COX_COVERAGE)
    set(coxi_profiles ${CMAKE_BINARY_DIR}/profiles)
    target_compile_options(
        coxi_flags INTERFACE -fprofile-instr-generate=${coxi_profiles}/%c%m.profraw
                             -fcoverage-mapping "SHELL:-mllvm -runtime-counter-relocation")
    target_link_options(coxi_flags INTERFACE -fprofile-instr-generate)
endif()

# What makes a mistake in memory harder to use. scripts/hardening finds each of these in the
# programs that are built. Not with sanitizers, which find the mistakes themselves.
if(NOT COX_SANITIZE)
    target_compile_options(
        coxi_flags
        INTERFACE -fstack-protector-strong -fstack-clash-protection
                  $<$<CONFIG:Release>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>)
    target_link_options(coxi_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack
                        $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
        target_compile_options(coxi_flags INTERFACE -fcf-protection)
    endif()
endif()
