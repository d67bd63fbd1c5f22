# cmake -DPROGRAM=... -DEXPECTED=FILE -P expect_output.cmake: the program ends well and prints exactly the file.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output RESULT_VARIABLE result)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM}: ended with ${result}")
endif()
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM}: printed\n${output}want (${EXPECTED})\n${expected}")
endif()
