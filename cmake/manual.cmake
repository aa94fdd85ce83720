# Manual pages: each program prints its own (--man), from the table that --help prints.
set(man_dir ${CMAKE_BINARY_DIR}/man)
file(MAKE_DIRECTORY ${man_dir})
set(manual_pages "")

# coxi_add_manual(<target> [command...]): the page of the program, or of its command.
function(coxi_add_manual target)
    get_target_property(program ${target} OUTPUT_NAME)
    if(NOT program)
        set(program ${target})
    endif()
    list(JOIN ARGN "-" command)
    string(REGEX REPLACE "-$" "" page "${program}-${command}")
    add_custom_command(
        OUTPUT ${man_dir}/${page}.1
        COMMAND ${target} ${ARGN} --man > ${man_dir}/${page}.1
        DEPENDS ${target}
        VERBATIM)
    set(manual_pages ${manual_pages} ${man_dir}/${page}.1 PARENT_SCOPE)
endfunction()

coxi_add_manual(coxswain-ps)
coxi_add_manual(coxswain-worker)
coxi_add_manual(coxswain-cli)
foreach(command run cluster role page top status events checkpoint data key sign)
    coxi_add_manual(coxswain-cli ${command})
endforeach()
foreach(command list show verify diff export prune)
    coxi_add_manual(coxswain-cli checkpoint ${command})
endforeach()
foreach(command head count verify index convert shard generate)
    coxi_add_manual(coxswain-cli data ${command})
endforeach()
coxi_add_manual(coxswain-cli cluster explain)
foreach(command new reader module)
    coxi_add_manual(coxswain-cli key ${command})
endforeach()
add_custom_target(manual ALL DEPENDS ${manual_pages})
install(FILES ${manual_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
