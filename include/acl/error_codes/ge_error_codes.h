/* Exists so that programs which include it compile: this library has no graph engine and returns none of its
 * codes. */
#ifndef ACL_GE_ERROR_CODES_H
#define ACL_GE_ERROR_CODES_H
#endif
