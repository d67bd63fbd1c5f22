/* ACLGRAD_VERBOSE: one CSV line per event on stderr:  aclgrad,<event>,<operator>,<text>  */
#ifndef AG_BASE_LOG_H
#define AG_BASE_LOG_H

/* Writes the line when `event` (AG_VERBOSE_CHECK, _PLAN or _RUN) is switched on; one write, never torn. */
void ag_verbose(unsigned event, const char *op, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Writes the line "aclgrad,debug,<operator>,<text>": for what ACLGRAD_DEBUG=1 finds; the caller has asked for it. */
void ag_report(const char *op, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The event is switched on: worth gathering what the line says. */
int ag_is_verbose(unsigned event);

#endif
