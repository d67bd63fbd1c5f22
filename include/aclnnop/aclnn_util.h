/* ACLNN_API: what the shared library exports. */
#ifndef ACLNN_UTIL_H
#define ACLNN_UTIL_H
#ifndef ACLNN_API
#    define ACLNN_API __attribute__((visibility("default")))
#endif
#endif
