const { TOOLLOOP_FULL: full, FUZZ_RUNS: asked } = process.env;

/**
 * How many cases a property tries: all of them with `TOOLLOOP_FULL=1`, as in `.ci/run`, and a
 * twentieth in an ordinary `npm test`. `FUZZ_RUNS=100000 npm test -- test/wires/mutated-streams`
 * tries longer than any suite has time for.
 */
export function cases(all: number): number {
  if (asked !== undefined) return Number(asked);
  return full === '1' ? all : Math.ceil(all / 20);
}
