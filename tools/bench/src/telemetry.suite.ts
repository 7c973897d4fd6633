import { startProvider } from './local-provider.js';
import { Contender } from './peers/contender.js';
import { OBSERVED } from './peers/slice.js';
import type { Section, Suite } from './report.js';
import { median } from './sampling.js';
import type { Task } from './task.js';

const TASK: Task = { steps: 10, chunks: 20, pace: 'one write' };
const ROUNDS = 31;
const WARM_UP_ROUNDS = 12;
const RUNS = 25;

const BARE = { name: 'toolloop', title: 'without telemetry' } as const;
const SILENT = { name: 'silent', title: OBSERVED.silent } as const;
const SEEN = { name: 'seen', title: OBSERVED.seen } as const;
const APPLICATIONS = [BARE, SILENT, SEEN] as const;

/** Microseconds of CPU time of a run, by application, round by round. */
type Rounds = ReadonlyMap<string, number[]>;

/** The cost of telemetry to a run: every span is recorded, every metric counted. */
export const telemetrySuite: Suite = {
  name: 'telemetry',
  async run(): Promise<Section> {
    const rounds = await measure();
    const times = (title: string): readonly number[] => rounds.get(title) ?? [];
    const ratio = (title: string): number =>
      median(times(title).map((cpu, round) => cpu / (times(BARE.title)[round] ?? Number.NaN)));
    return {
      title: 'a run that is seen in OpenTelemetry',
      method: [
        `A run of ${TASK.steps} steps with the defaults over a local provider, one call in each: ${2 * TASK.steps} spans. Each application has a process of its own, and`,
        'they take turns; the ratio is the median of the ratios of each round. Spans go through the batch processor of the SDK to an exporter that drops them.',
      ],
      tables: [
        {
          title: 'CPU of a run in µs',
          columns: [
            { key: 'name', title: 'run' },
            { key: 'us', title: 'µs', digits: 0 },
            { key: 'ratio', title: '×' },
          ],
          rows: APPLICATIONS.map(({ title }) => ({
            name: title,
            us: median(times(title)),
            ratio: ratio(title),
          })),
        },
      ],
      targets: [
        {
          what: 'a run with telemetry, to one without',
          value: ratio(SEEN.title),
          unit: '×',
          atMost: 1.05,
        },
      ],
      skipped: [],
    };
  },
};

async function measure(): Promise<Rounds> {
  const provider = await startProvider();
  const slice = { task: TASK, baseURL: provider.baseURL(TASK), runs: RUNS, atOnce: 1 };
  const contenders: { readonly title: string; readonly process: Contender }[] = [];
  for (const { name, title } of APPLICATIONS)
    contenders.push({ title, process: await Contender.start(name, { tools: [] }) });
  const rounds = new Map(contenders.map(({ title }) => [title, [] as number[]]));
  for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round += 1) {
    // Each goes first as often as the others do.
    const [first, ...others] = contenders;
    if (first) contenders.splice(0, contenders.length, ...others, first);
    for (const { title, process } of contenders) {
      const { cpu } = await process.slice(slice);
      if (round >= 0) rounds.get(title)?.push(cpu / RUNS);
    }
  }
  for (const { process } of contenders) await process.stop();
  await provider.stop();
  return rounds;
}
