#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "evals/cli.h"
#include "evals/console.h"

static const struct {
	const char *name;
	command_function *function;
} commands[] = {
	{"run", cmd_run},
	{"list", cmd_list},
	{"show", cmd_show},
	{"tokenize", cmd_tokenize},
	{"generate", cmd_generate},
	{"logprobs", cmd_logprobs},
	{"template", cmd_template},
	{"prompts", cmd_prompts},
	{"rescore", cmd_rescore},
	{"compare", cmd_compare},
	{"diff", cmd_diff},
	{"gate", cmd_gate},
	{"bench", cmd_bench},
	{"overhead", cmd_overhead},
	{"export", cmd_export},
	{"import", cmd_import},
	{"inject", cmd_inject},
	{"report", cmd_report},
	{"db", cmd_db},
};

/* A standard stream that was closed would give its number to the next file that is opened, which would then be written
 * as if it were the stream. Opened the wrong way round, each still fails when it is used. */
static void open_standard_files(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", modes[fd]);
}

static int run_command(const struct options *o, struct error *e)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, o->command) == 0)
			return commands[i].function(o, e);
	return error_exit_code(error_set(e, ERR_USAGE, "'%s' is not built", o->command));
}

static void print_help(const char *command)
{
	struct buf text = {0};
	options_help(command, &text);
	fputs(buf_text(&text), stdout);
	buf_free(&text);
}

/* Output that nobody reads to its end (`| head`) is no failure; a full disk is one. */
static int finish_output(int exit_code, struct error *e)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return exit_code;
	int number = errno;
	struct pollfd output = {STDOUT_FILENO, 0, 0};
	if (number == EPIPE || (poll(&output, 1, 0) == 1 && (output.revents & POLLERR)))
		return exit_code;
	if (exit_code)
		return exit_code; /* the first failure is the one to tell */
	/* of a write that failed earlier, the reason is lost */
	return error_exit_code(error_set(
		e, ERR_IO, "cannot write to standard output%s%s", number ? ": " : "", number ? strerror(number) : ""));
}

int main(int argc, char **argv)
{
	struct options o;
	struct console c;
	struct error e = {0};
	open_standard_files();
	/* What packing a matrix took goes back to the system at once: glibc would raise this bound and keep the memory. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	signal(SIGPIPE, SIG_IGN); /* a write into a closed pipe fails instead: a run is not killed by its reader */
	signal(SIGXFSZ, SIG_IGN); /* nor by a limit on the size of files: that write fails, too, and says so */
	int exit_code = error_exit_code(options_parse(argc, argv, &o, &e));
	console_init(&c, &o, stdout, stderr);
	if (exit_code != 0 && o.command && strcmp(o.command, "gate") == 0)
		cmd_gate_refused(&o, &e);
	if (exit_code == 0 && o.note[0])
		console_note(&c, "%s", o.note);
	if (exit_code == 0 && o.version)
		printf("assay %s\n", ASSAY_VERSION);
	else if (exit_code == 0 && o.help)
		print_help(o.command);
	else if (exit_code == 0)
		exit_code = run_command(&o, &e);
	exit_code = finish_output(exit_code, &e);
	if (exit_code != 0 && e.code)
		console_error(&c, e.message);
	options_free(&o);
	return exit_code;
}
