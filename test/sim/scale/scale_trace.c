/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: pods as a published trace has them. The tables below are of a sample of Alibaba's
 * cluster-trace-gpu-v2023, the trace of "Beware of Fragmentation" (USENIX ATC 2023); README.md says
 * which rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/sim/scale/scale.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Lives in seconds, from the moment at which the pod was scheduled to its end, at these shares of
 * the sample. Between two of them: log-linear. */
#define QUANTILES 12
static const double at[QUANTILES] = {0, .05, .1, .25, .5, .75, .9, .95, .98, .99, .995, 1};
enum life { LIFE_SMALL, LIFE_HALF, LIFE_LARGE, LIFE_ONE, LIFE_SEVERAL, LIVES };
static const double lives[LIVES][QUANTILES] = {
	/* up to 37 % of a GPU */
	{40, 75, 98, 490, 1289, 5720, 17806, 24146, 40784, 47325, 59288, 74624},
	/* 46 to 48 % */
	{16, 48, 63, 146, 618, 1774, 4814, 11689, 32397, 59677, 418825, 982167},
	/* 55 to 81 % */
	{11, 24, 48, 135, 934, 1981, 7067, 21614, 82980, 110651, 116363, 133432},
	/* one GPU */
	{13, 52, 65, 198, 468, 1526, 4728, 10920, 27529, 79755, 883918, 2612709},
	/* 2 to 8 GPUs */
	{114, 120, 160, 445, 536, 5272, 93574, 872130, 950166, 963744, 970534, 977323},
};

/* How many of the 1263 pods of the sample asked for so much. */
static const struct size {
	uint8_t amount, percent;
	uint16_t pods;
	enum life life;
} sizes[] = {
	{1, 5, 2, LIFE_SMALL},
	{1, 11, 5, LIFE_SMALL},
	{1, 16, 9, LIFE_SMALL},
	{1, 22, 16, LIFE_SMALL},
	{1, 23, 30, LIFE_SMALL},
	{1, 27, 1, LIFE_SMALL},
	{1, 32, 43, LIFE_SMALL},
	{1, 33, 1, LIFE_SMALL},
	{1, 35, 1, LIFE_SMALL},
	{1, 37, 12, LIFE_SMALL},
	{1, 46, 28, LIFE_HALF},
	{1, 47, 95, LIFE_HALF},
	{1, 48, 1, LIFE_HALF},
	{1, 55, 14, LIFE_LARGE},
	{1, 59, 9, LIFE_LARGE},
	{1, 65, 55, LIFE_LARGE},
	{1, 81, 99, LIFE_LARGE},
	{1, 100, 820, LIFE_ONE},
	{2, 100, 3, LIFE_SEVERAL},
	{4, 100, 3, LIFE_SEVERAL},
	{8, 100, 16, LIFE_SEVERAL},
};

/* ---- chance ---- */

uint64_t chance_next(struct chance *c)
{
	uint64_t x = c->state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

double chance_unit(struct chance *c)
{
	return (double)(chance_next(c) >> 11) * 0x1p-53;
}

int64_t chance_wait(struct chance *c, int64_t mean_us)
{
	return (int64_t)(-log(1 - chance_unit(c)) * (double)mean_us);
}

/* ---- draws ---- */

/* The mean of the piece between two quantiles. */
static double piece_mean(enum life life, size_t i)
{
	double a = lives[life][i], b = lives[life][i + 1];

	return b > a ? (b - a) / log(b / a) : a;
}

static double mean_life(enum life life)
{
	double mean = 0;

	for (size_t i = 0; i + 1 < QUANTILES; i++)
		mean += (at[i + 1] - at[i]) * piece_mean(life, i);
	return mean;
}

static double draw_life(struct chance *c, enum life life)
{
	double u = chance_unit(c);
	size_t i = 0;

	while (i + 2 < QUANTILES && u >= at[i + 1])
		i++;
	u = (u - at[i]) / (at[i + 1] - at[i]);
	return lives[life][i] * pow(lives[life][i + 1] / lives[life][i], u);
}

/* What is left of the life of somebody who is met: who lives long is met more often, at any moment
 * of his life. */
static double draw_rest(struct chance *c, enum life life)
{
	double u = chance_unit(c) * mean_life(life), piece;
	size_t i = 0;

	for (; i + 2 < QUANTILES; i++) {
		piece = (at[i + 1] - at[i]) * piece_mean(life, i);
		if (u < piece)
			break;
		u -= piece;
	}
	return (lives[life][i] + chance_unit(c) * (lives[life][i + 1] - lives[life][i])) *
	       chance_unit(c);
}

/* How often a size is met: among those who come, or among those who stand. */
static double weight(const struct size *s, bool standing)
{
	return s->pods * (standing ? mean_life(s->life) : 1);
}

static struct pod draw(struct chance *c, bool standing, double stretch)
{
	double sum = 0, u, life;
	size_t i = 0;

	for (size_t k = 0; k < COUNT(sizes); k++)
		sum += weight(&sizes[k], standing);
	u = chance_unit(c) * sum;
	for (; i + 1 < COUNT(sizes) && u >= weight(&sizes[i], standing); i++)
		u -= weight(&sizes[i], standing);
	life = standing ? draw_rest(c, sizes[i].life) : draw_life(c, sizes[i].life);
	return (struct pod){.amount = sizes[i].amount,
		.percent = sizes[i].percent,
		.life_us = (int64_t)(life * stretch * SECOND)};
}

/* When this share of the day's pods has come: the inverse of t - swing × sin(2πt) / 2π. */
static int64_t when(double share, double swing)
{
	double low = 0, high = 1;

	for (int i = 0; i < 50; i++) {
		double t = (low + high) / 2;

		if (t - swing * sin(2 * M_PI * t) / (2 * M_PI) < share)
			low = t;
		else
			high = t;
	}
	return (int64_t)(low * DAY);
}

struct day day_make(uint64_t seed, size_t servers, size_t n, double load, double swing)
{
	struct chance c = {.state = seed};
	double pods = 0, life = 0, gpu_s = 0, sum = 0;
	struct day d;

	for (size_t i = 0; i < COUNT(sizes); i++) {
		pods += sizes[i].pods;
		life += sizes[i].pods * mean_life(sizes[i].life);
		gpu_s += sizes[i].pods * mean_life(sizes[i].life) * sizes[i].amount *
			 sizes[i].percent / 100;
	}
	d.stretch = load * (double)servers * GPUS * 86400 / ((double)n * gpu_s / pods);
	d.n_standing = (size_t)(life / pods * d.stretch * (double)n / 86400);
	d.n = d.n_standing + n;
	d.pods = calloc(d.n, sizeof(*d.pods));
	if (!d.pods)
		abort();
	for (size_t i = 0; i < d.n; i++) {
		d.pods[i] = draw(&c, i < d.n_standing, d.stretch);
		/* The gaps between creates are exponential: their sum, put to scale, is what share
		 * has come. */
		if (i >= d.n_standing) {
			sum -= log(1 - chance_unit(&c));
			d.pods[i].comes_us = (int64_t)(sum * 1e6);
		}
	}
	for (size_t i = d.n_standing; i < d.n; i++)
		d.pods[i].comes_us = when((double)d.pods[i].comes_us / (sum * 1e6), swing);
	return d;
}
