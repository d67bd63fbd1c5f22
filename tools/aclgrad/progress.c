/* A bar on stderr, redrawn four times a second by a thread of its own, so that work inside one long library call
 * moves it too. Nothing is drawn in the first second, without a terminal, or with --quiet. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool is_running, is_stopping;
    const char *what;
    int64_t total, begin_ns;
    atomic_llong done;
} bar = {.lock = PTHREAD_MUTEX_INITIALIZER, .stop = PTHREAD_COND_INITIALIZER};

static void draw(void)
{
    enum { WIDTH = 30 };
    const double seconds = (double)(ag_clock_ns() - bar.begin_ns) * 1e-9;
    if (seconds < 1) {
        return;
    }
    const int64_t done = atomic_load(&bar.done);
    if (bar.total <= 0) {
        fprintf(stderr, "\r\033[K%s: %.0f s", bar.what, seconds);
    } else {
        const double share = done >= bar.total ? 1 : (double)done / (double)bar.total;
        char cells[WIDTH + 1];
        for (int i = 0; i < WIDTH; ++i) {
            cells[i] = i < (int)(share * WIDTH) ? '#' : '.';
        }
        cells[WIDTH] = 0;
        fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %.0f s", bar.what, cells, share * 100, seconds);
    }
    fflush(stderr);
}

static void *redraw(void *unused)
{
    pthread_mutex_lock(&bar.lock);
    while (!bar.is_stopping) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&bar.stop, &bar.lock, &until);
        if (!bar.is_stopping) {
            draw();
        }
    }
    pthread_mutex_unlock(&bar.lock);
    return unused;
}

void progress_begin(const char *what, int64_t total)
{
    bar.what = what;
    bar.total = total;
    bar.begin_ns = ag_clock_ns();
    bar.is_stopping = false;
    atomic_store(&bar.done, 0);
    bar.is_running = !cli.is_quiet && isatty(STDERR_FILENO) && pthread_create(&bar.thread, NULL, redraw, NULL) == 0;
}

void progress_step(int64_t steps)
{
    atomic_fetch_add(&bar.done, steps);
}

void progress_end(void)
{
    if (bar.is_running) {
        pthread_mutex_lock(&bar.lock);
        bar.is_stopping = true;
        pthread_cond_signal(&bar.stop);
        pthread_mutex_unlock(&bar.lock);
        pthread_join(bar.thread, NULL);
        fputs("\r\033[K", stderr);
        bar.is_running = false;
    }
}
