import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LocalProvider, type RequestTimes, startProvider } from '../local-provider.js';
import { median } from '../sampling.js';
import { Contender } from './contender.js';
import { type Scenario, SCENARIOS } from './scenarios.js';
import type { ContenderName, DeclaredTool, SliceReport } from './slice.js';

/** How long is measured. */
export interface Effort {
  readonly rounds: number;
  /**
   * CPU time in milliseconds that a contender gets before it is measured; a quarter of it where its
   * process has measured another scenario.
   */
  readonly warmUpMs: number;
  /** CPU time in milliseconds that a slice should take. */
  readonly sliceMs: number;
}

/** A slice beside the floor's slices before and after it. */
export interface Sample {
  readonly perRun: { readonly cpu: number; readonly wall: number };
  /** The same of the floor, the mean of both its slices. */
  readonly floor: { readonly cpu: number; readonly wall: number };
  readonly longestPause: number;
  readonly residentBytes: number;
  readonly latency?: Latency;
}

/** Medians of a slice, in microseconds by the clock. */
export interface Latency {
  readonly toFirstRequest: number;
  readonly toTool: number;
  readonly toNextRequest: number;
}

export type Results = ReadonlyMap<Scenario['name'], ReadonlyMap<ContenderName, readonly Sample[]>>;

/**
 * Measures every contender in every scenario, its slices between those of the floor. A contender
 * that cannot start is left out, with its reason.
 */
export async function race(
  names: readonly ContenderName[],
  effort: Effort,
): Promise<{ results: Results; failed: ReadonlyMap<ContenderName, string> }> {
  const results = new Map<Scenario['name'], Map<ContenderName, Sample[]>>();
  const failed = new Map<ContenderName, string>();
  for (const group of groups()) {
    const [{ secure = false, furtherTools = 0 } = {}] = group;
    const certificate = secure ? selfSigned() : undefined;
    const provider = await startProvider(certificate);
    const field = new Field(provider, effort);
    await field.enter(names, {
      furtherTools,
      failed,
      ...(certificate !== undefined && { certificate }),
    });
    for (const [place, scenario] of group.entries()) {
      const warmUpMs = effort.warmUpMs / (place === 0 ? 1 : 4);
      results.set(scenario.name, await field.run(scenario, warmUpMs));
    }
    await field.close();
  }
  return { results, failed };
}

/** The scenarios, those together that can share processes. */
function groups(): readonly (readonly Scenario[])[] {
  const found = new Map<string, Scenario[]>();
  for (const scenario of SCENARIOS) {
    const key = `${scenario.furtherTools ?? 0} ${scenario.secure ?? false}`;
    found.set(key, [...(found.get(key) ?? []), scenario]);
  }
  return [...found.values()];
}

/** A key and a certificate for localhost in one file of the temporary folder, made by openssl. */
function selfSigned(): string {
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  const key = join(folder, 'key.pem');
  const certificate = join(folder, 'certificate.pem');
  const both = join(folder, 'both.pem');
  const args = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=localhost',
  ];
  execFileSync(
    'openssl',
    [...args, '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificate],
    { stdio: 'ignore' },
  );
  writeFileSync(both, readFileSync(key, 'utf8') + readFileSync(certificate, 'utf8'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return both;
}

/** Contenders that run the same scenarios over one provider. */
class Field {
  private readonly contenders: Contender<ContenderName>[] = [];

  constructor(
    private readonly provider: LocalProvider,
    private readonly effort: Effort,
  ) {}

  async enter(
    names: readonly ContenderName[],
    {
      furtherTools,
      certificate,
      failed,
    }: { furtherTools: number; certificate?: string; failed: Map<ContenderName, string> },
  ): Promise<void> {
    let tools: readonly DeclaredTool[] = [];
    const inOrder = ['toolloop', ...names.filter((name) => name !== 'toolloop')] as const;
    for (const name of inOrder) {
      try {
        const contender = await Contender.start(name, {
          tools,
          further: furtherTools,
          ...(certificate !== undefined && { certificate }),
        });
        if (name === 'toolloop') tools = contender.tools;
        this.contenders.push(contender);
      } catch (error) {
        failed.set(
          name,
          error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error),
        );
      }
    }
  }

  async run(scenario: Scenario, warmUpMs: number): Promise<Map<ContenderName, Sample[]>> {
    const runs = new Map<ContenderName, number>();
    for (const contender of this.contenders)
      runs.set(contender.name, await this.warm(contender, scenario, warmUpMs));
    const samples = new Map<ContenderName, Sample[]>(this.contenders.map(({ name }) => [name, []]));
    for (let round = 0; round < this.effort.rounds; round += 1)
      await this.round(scenario, runs, samples);
    return samples;
  }

  async close(): Promise<void> {
    for (const contender of this.contenders) await contender.stop();
    await this.provider.stop();
  }

  /** One slice of each contender, with one of the floor before and after it. */
  private async round(
    scenario: Scenario,
    runs: ReadonlyMap<ContenderName, number>,
    samples: Map<ContenderName, Sample[]>,
  ): Promise<void> {
    const floor = this.contenders.find(({ name }) => name === 'floor');
    if (!floor) throw new Error('The floor did not start.');
    let before = await this.slice(floor, scenario, runs.get('floor') ?? 1);
    for (const contender of this.contenders) {
      const own =
        contender === floor
          ? before
          : await this.slice(contender, scenario, runs.get(contender.name) ?? 1);
      const after =
        contender === floor ? before : await this.slice(floor, scenario, runs.get('floor') ?? 1);
      const mean = (key: 'cpu' | 'wall'): number => (before.perRun[key] + after.perRun[key]) / 2;
      samples
        .get(contender.name)
        ?.push({ ...own, floor: { cpu: mean('cpu'), wall: mean('wall') } });
      before = after;
    }
  }

  /**
   * Lets a contender run until it has had its time on a CPU, and returns how many runs make a
   * slice.
   */
  private async warm(contender: Contender, scenario: Scenario, warmUpMs: number): Promise<number> {
    const atOnce = scenario.atOnce ?? 1;
    let spent = 0;
    let runs = atOnce;
    for (;;) {
      const { cpu } = await contender.slice({ ...this.work(scenario), runs });
      spent += cpu / 1000;
      const wanted = Math.max(
        atOnce,
        Math.min(4 * runs, Math.round((runs * this.effort.sliceMs * 1000) / cpu)),
      );
      runs = wanted;
      if (spent >= warmUpMs) return runs;
    }
  }

  private work({ task, atOnce = 1 }: Scenario) {
    return { task, atOnce, baseURL: this.provider.baseURL(task) };
  }

  private async slice(
    contender: Contender,
    scenario: Scenario,
    runs: number,
  ): Promise<Omit<Sample, 'floor'>> {
    await this.provider.requestTimes();
    const report = await contender.slice({ ...this.work(scenario), runs });
    const times = await this.provider.requestTimes();
    const latency = latencyOf(report, times, scenario.task.steps);
    const { cpu, wall, longestPause, residentBytes } = report;
    return {
      perRun: { cpu: cpu / runs, wall: wall / runs },
      longestPause,
      residentBytes,
      ...(latency && { latency }),
    };
  }
}

/**
 * Joins the times that the contender and the provider have of the same runs, one after the other.
 */
function latencyOf(
  { runs }: SliceReport,
  requests: readonly RequestTimes[],
  steps: number,
): Latency | undefined {
  if (steps === 1 || requests.length !== runs.length * steps) return undefined;
  const joined = runs.map(({ began, called }, run) => {
    const own = requests.slice(run * steps, (run + 1) * steps);
    return {
      toFirstRequest: own.slice(0, 1).map(([arrived]) => arrived - began),
      toTool: called.map((at, step) => at - (own[step]?.[1] ?? Number.NaN)),
      toNextRequest: own.slice(1).map(([arrived], step) => arrived - (called[step] ?? Number.NaN)),
    };
  });
  const microseconds = (key: keyof Latency): number =>
    1000 * median(joined.flatMap((times) => times[key]));
  return {
    toFirstRequest: microseconds('toFirstRequest'),
    toTool: microseconds('toTool'),
    toNextRequest: microseconds('toNextRequest'),
  };
}
