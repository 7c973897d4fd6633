/** Something to measure. One sample is one call of `work`, which does `units` pieces of work. */
export interface Contender {
  readonly name: string;
  readonly units: number;
  readonly work: () => Promise<void>;
  /** Called before every sample, and not measured. */
  readonly prepare?: () => void | Promise<void>;
}

export interface Rounds {
  readonly rounds: number;
  readonly warmUp: number;
}

/**
 * Microseconds per unit: by the clock; of this thread on a CPU, which leaves out what other
 * processes take; of all threads on a CPU, which includes the garbage collector's and the
 * compiler's.
 */
export interface Sample {
  readonly wall: number;
  readonly thread: number;
  readonly cpu: number;
}

type Measure = keyof Sample;

/** The samples of the contenders of one comparison, round by round. */
export class Samples {
  constructor(private readonly samples: ReadonlyMap<string, readonly Sample[]>) {}

  of(name: string, measure: Measure): number {
    return median(this.valuesOf(name, measure));
  }

  /** Returns the difference of the one to the other, each time in the same round. */
  beyond(name: string, other: string, measure: Measure): number {
    return median(this.pairs(name, other, measure).map(([one, two]) => one - two));
  }

  /** Returns the ratio of the one to the other, each time in the same round. */
  ratio(name: string, other: string, measure: Measure): number {
    return median(this.pairs(name, other, measure).map(([one, two]) => one / two));
  }

  /** Returns the {@link spread} of its samples. */
  spread(name: string, measure: Measure): number {
    return spread(this.valuesOf(name, measure));
  }

  private pairs(name: string, other: string, measure: Measure): (readonly [number, number])[] {
    const others = this.valuesOf(other, measure);
    return this.valuesOf(name, measure).map(
      (value, round) => [value, others[round] ?? Number.NaN] as const,
    );
  }

  private valuesOf(name: string, measure: Measure): number[] {
    const found = this.samples.get(name);
    if (!found) throw new Error(`Nothing named "${name}" was measured.`);
    return found.map((sample) => sample[measure]);
  }
}

/**
 * Measures contenders against each other: one sample of each per round, the order turned by one
 * from round to round.
 */
export async function compare(
  contenders: readonly Contender[],
  { rounds, warmUp }: Rounds,
): Promise<Samples> {
  const samples = new Map(contenders.map(({ name }) => [name, [] as Sample[]]));
  for (let round = -warmUp; round < rounds; round += 1) {
    for (const contender of rotated(contenders, round + warmUp)) {
      const sample = await take(contender);
      if (round >= 0) samples.get(contender.name)?.push(sample);
    }
  }
  return new Samples(samples);
}

/**
 * A collection of young garbage comes before, so that no contender pays for its predecessor's;
 * samples are long enough to pay for their own. A full collection would throw optimised code away
 * and measure the interpreter.
 */
async function take({ units, work, prepare }: Contender): Promise<Sample> {
  await prepare?.();
  globalThis.gc?.({ type: 'minor', execution: 'sync' });
  const cpuBefore = process.cpuUsage();
  const threadBefore = process.threadCpuUsage();
  const before = performance.now();
  await work();
  const wall = (performance.now() - before) * 1000;
  const thread = process.threadCpuUsage(threadBefore);
  const cpu = process.cpuUsage(cpuBefore);
  return {
    wall: wall / units,
    thread: (thread.user + thread.system) / units,
    cpu: (cpu.user + cpu.system) / units,
  };
}

function rotated<Item>(items: readonly Item[], by: number): Item[] {
  const first = by % Math.max(1, items.length);
  return [...items.slice(first), ...items.slice(0, first)];
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

/** Half the distance between the quartiles, in percent of the median. */
export function spread(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
  return (50 * (at(0.75) - at(0.25))) / at(0.5);
}

/** Calls a function so many times, one after the other. */
export async function repeat(times: number, work: (index: number) => unknown): Promise<void> {
  for (let index = 0; index < times; index += 1) await work(index);
}
