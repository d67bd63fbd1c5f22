# Reads ctest's LastTest.log and prints "PASSED FAILED". A test program of cmocka counts with the cases it reports,
# any other as one; a program that fails without reporting a failed case (a crash) is one failure. A skipped case
# counts as neither.
/^[0-9]+\/[0-9]+ Testing: / { cases = bad = reported = 0; is_missing = pending; pending = 0 }
match($0, /\[  PASSED  \] [0-9]+ test/) { cases += substr($0, RSTART + 13); reported = 1 }
match($0, /\[  FAILED  \] [0-9]+ test\(s\), listed/) { bad += substr($0, RSTART + 13) }
/^(Unable to|Could not) find executable/ { ++failed; pending = 1 } # ctest then logs the test as passed
/^Test Passed\.$/ && !is_missing { passed += reported ? cases : 1; failed += bad }
/^Test Failed\.$/ && !is_missing { passed += cases; failed += bad ? bad : 1 }
END { print passed + 0, failed + 0 }
