# cmake -DPROGRAM=sandboxctl -DOUT=sandboxctl.1 -P manual.cmake: writes the manual page that a program prints of itself.
execute_process(COMMAND ${PROGRAM} --man OUTPUT_FILE ${OUT} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    file(REMOVE ${OUT})
    message(FATAL_ERROR "${PROGRAM} --man: ${result}")
endif()
