#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "evals/cli.h"

static volatile sig_atomic_t signal_seen;

static void on_signal(int number)
{
	(void)number;
	if (signal_seen)
		_exit(130);
	signal_seen = 1;
}

bool interrupted(void)
{
	return signal_seen != 0;
}

void interrupt_handlers_install(void)
{
	/* Reads and writes go on after the first signal: the sample in hand is to be finished. */
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigemptyset(&action.sa_mask);
	/* Also where they were ignored: a shell script starts its background jobs so, and Ctrl-C is to reach them. */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}
